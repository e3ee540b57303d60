//! The example of a tokio service runs.

#[path = "../examples/tokio_service.rs"]
mod service;

#[test]
fn tasks_of_a_tcp_service_call_a_farcall_service() {
    let answers = service::answers(&["four", "", "a line of 21 letters."]).expect("it serves");
    assert_eq!(answers, ["4 bytes", "0 bytes", "21 bytes"]);
}
