//! The tap sees gaps between an answer and the next request, and nothing else.

use std::time::Duration;

use super::*;

#[test]
fn a_gap_is_from_an_answers_last_byte_to_the_next_request() {
    let start = Instant::now();
    let at = |milliseconds| start + Duration::from_millis(milliseconds);
    let passed = [
        (at(0), Way::Up { request: true }),
        (at(1), Way::Up { request: false }),
        (at(5), Way::Down),
        (at(9), Way::Down),
        (at(12), Way::Up { request: true }),
        (at(20), Way::Down),
        // A connection that only closes, or asks for something else, is no next request.
        (at(30), Way::Up { request: false }),
    ];
    assert_eq!(gaps(&passed), [3.0]);
}

#[test]
fn bytes_pass_a_tap_both_ways_and_leave_their_notes() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("listen");
    let port = listener.local_addr().expect("bound").port();
    let tap = Tap::start(port).expect("start");
    let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, tap.port)).expect("connect");
    let (mut model, _) = listener.accept().expect("accept");
    let mut buffer = [0; 9];
    for _ in 0..2 {
        client.write_all(b"POST / x\n").expect("send");
        model.read_exact(&mut buffer).expect("arrives");
        assert_eq!(&buffer, b"POST / x\n");
        model.write_all(b"answered\n").expect("send");
        client.read_exact(&mut buffer).expect("arrives");
        assert_eq!(&buffer, b"answered\n");
    }
    // The end of the connection passes too: by then every note is taken.
    client.shutdown(std::net::Shutdown::Write).expect("close");
    assert_eq!(model.read(&mut buffer).expect("the end"), 0);
    assert_eq!(tap.gaps().len(), 1);
}
