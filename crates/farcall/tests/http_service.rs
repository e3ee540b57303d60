//! The example of an HTTP service runs.

#[path = "../examples/http_service.rs"]
mod service;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The status and the body of an answer to a POST.
async fn post(service: std::net::SocketAddr, body: &[u8]) -> (String, String) {
    let mut connection = TcpStream::connect(service).await.expect("it listens");
    let head = format!(
        "POST /length HTTP/1.1\r\nhost: here\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    connection.write_all(&[head.as_bytes(), body].concat()).await.expect("it reads");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.expect("it answers and closes");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head.lines().next().expect("a status").to_owned(), body.to_owned())
}

#[test]
fn handlers_of_an_http_server_call_a_farcall_service() {
    let (routes, _registry) = service::with_a_server().expect("it serves");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("threads").block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        tokio::spawn(async move { axum::serve(listener, routes).await });
        let found = |length: &str| ("HTTP/1.1 200 OK".to_owned(), length.to_owned());
        assert_eq!(post(address, "four".as_bytes()).await, found("4"));
        assert_eq!(post(address, b"").await, found("0"));
        assert_eq!(post(address, "größer".as_bytes()).await, found("6"));
        let (status, body) = post(address, b"\xff").await;
        assert_eq!(status, "HTTP/1.1 422 Unprocessable Entity");
        assert!(body.contains("refused with code 1"), "{body}");
        let asked: Vec<_> = (0..50)
            .map(|n| tokio::spawn(async move { post(address, &vec![b'a'; 1000 * n]).await }))
            .collect();
        for (n, asked) in asked.into_iter().enumerate() {
            assert_eq!(asked.await.expect("it was asked"), found(&(1000 * n).to_string()));
        }
    });
}
