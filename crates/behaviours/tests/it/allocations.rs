//! Counts the bytes that this process has allocated and not given back.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};

static LIVE: AtomicIsize = AtomicIsize::new(0);

#[global_allocator]
static COUNTING: Counting = Counting;

struct Counting;

// SAFETY: every call is passed to the system's allocator as it came; the count beside it allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size().cast_signed(), Ordering::Relaxed);
        // SAFETY: the caller keeps the promises of `GlobalAlloc::alloc`, which are the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size().cast_signed(), Ordering::Relaxed);
        // SAFETY: the pointer came from `alloc` above with this layout, so from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Bytes that are allocated now, in the whole process.
pub fn live() -> isize {
    LIVE.load(Ordering::Relaxed)
}
