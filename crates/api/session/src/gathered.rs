//! One list of a session and of all that it began: what waits for a person in a child is found at its parent.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bezel_context::{Context, Spawner};
use bezel_rpc::{ServiceClient, State, StateCell, StateValue, Subscription};
use bezel_session_types::SessionId;
use tokio::sync::{Notify, watch};

use crate::sessions::{HostedSession, Sessions};

/// A list of this session, and after it the same list of each child that is hosted, which has gathered those of
/// its own children.
pub struct Gathered<T, C> {
    state: State<Vec<T>>,
    children: Arc<Mutex<HashMap<SessionId, Child<T, C>>>>,
}

impl<T, C> Clone for Gathered<T, C> {
    fn clone(&self) -> Self {
        Gathered {
            state: self.state.clone(),
            children: Arc::clone(&self.children),
        }
    }
}

struct Child<T, C> {
    /// Of its host: what came back under the same id has services of its own.
    number: u64,
    client: C,
    list: State<Vec<T>>,
    _changes: Subscription,
}

/// How a list is had of a service, and what is noted at what came from a child.
pub struct Gathering<T, C> {
    /// The list of a child.
    pub of: fn(&C) -> State<Vec<T>>,
    /// Notes whose it is, unless somebody has.
    pub mark: fn(&mut T, &SessionId),
}

impl<T, C> Gathered<T, C>
where
    T: Clone,
    Vec<T>: StateValue,
    C: ServiceClient,
{
    /// Gathers until the facet of `spawner` ends.
    pub fn follow(
        sessions: &Sessions,
        spawner: &Spawner,
        own: State<Vec<T>>,
        gathering: Gathering<T, C>,
    ) -> Self {
        let cell = StateCell::new((*own.get()).clone());
        let gathered = Gathered {
            state: cell.state(),
            children: Arc::default(),
        };
        let (changed, sessions, children) =
            (Arc::new(Notify::new()), sessions.clone(), gathered.clone());
        // Until it has what the children ask that an earlier process had begun.
        let mut to_come = Some(sessions.opening.list());
        spawner.spawn("lists of children", async move {
            let told = Arc::clone(&changed);
            let _own_changes = own.subscribe(move |_, _| told.notify_one());
            let mut hosted = sessions.hosted();
            let mut taking_up = sessions.opening.children();
            let cx = Context::background();
            let active = sessions.until_active(&cx);
            tokio::pin!(active);
            let mut is_active = false;
            loop {
                // Before the hosted ones are looked at: who is counted no more is among them.
                let all_there = is_active && *taking_up.borrow_and_update() == 0;
                children.update(&sessions, &mut hosted, &gathering, &changed);
                let mut all = (*own.get()).clone();
                let is_whole = children.append(&mut all, &gathering);
                cell.set(&cx, all);
                if all_there && is_whole {
                    to_come = None;
                }
                tokio::select! {
                    () = changed.notified() => {}
                    hosted = hosted.changed() => if hosted.is_err() { return },
                    _ = &mut active, if !is_active => is_active = true,
                    _ = taking_up.changed(), if to_come.is_some() => {}
                }
            }
        });
        gathered
    }

    /// The list of all. Fit for a contract.
    pub fn state(&self) -> State<Vec<T>> {
        self.state.clone()
    }

    /// The services of the children that are hosted.
    pub fn clients(&self) -> Vec<C> {
        let children = self.lock();
        children
            .values()
            .map(|child| child.client.clone())
            .collect()
    }

    /// The child in whose list there is such a thing.
    pub fn whose(&self, is_meant: impl Fn(&T) -> bool) -> Option<C> {
        let children = self.lock();
        let found = children
            .values()
            .find(|child| child.list.get().iter().any(&is_meant));
        found.map(|child| child.client.clone())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Child<T, C>>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(
        &self,
        sessions: &Sessions,
        hosted: &mut watch::Receiver<Arc<[HostedSession]>>,
        gathering: &Gathering<T, C>,
        changed: &Arc<Notify>,
    ) {
        let hosted = Arc::clone(&hosted.borrow_and_update());
        let own = |session: &&HostedSession| session.parent_id.as_ref() == Some(sessions.own());
        let there: HashMap<&SessionId, u64> = hosted
            .iter()
            .filter(own)
            .map(|one| (&one.session_id, one.number))
            .collect();
        let mut children = self.lock();
        children.retain(|id, child| there.get(id) == Some(&child.number));
        for (child, number) in there {
            if children.contains_key(child) {
                continue;
            }
            let Some(services) = sessions.services(child) else {
                continue;
            };
            let client: C = services.use_service();
            let (list, told) = ((gathering.of)(&client), Arc::clone(changed));
            let child_list = Child {
                number,
                _changes: list.subscribe(move |_, _| told.notify_one()),
                client,
                list,
            };
            children.insert(child.clone(), child_list);
        }
    }

    /// Adds what the children ask, and says whether that is known of each.
    fn append(&self, all: &mut Vec<T>, gathering: &Gathering<T, C>) -> bool {
        let children = self.lock();
        let is_whole = children.values().all(|child| child.list.is_ready());
        let mut by_age: Vec<_> = children.iter().collect();
        by_age.sort_unstable_by_key(|(id, _)| (*id).clone());
        for (id, child) in by_age {
            let mut list = (*child.list.get()).clone();
            list.iter_mut().for_each(|one| (gathering.mark)(one, id));
            all.append(&mut list);
        }
        is_whole
    }
}
