//! A server for tests of the hooks that talk to one.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use serde_json::Value;

/// A request: its first line without the version, and its body.
pub(crate) type Request = (String, Value);

/// Starts a server that answers every request with this status and body. Returns its address, as
/// `http://127.0.0.1:1234`, and the requests: each is there before it is answered.
pub(crate) fn server(status: &'static str, answer: &'static str) -> (String, Receiver<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (received, requests) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // Nobody receives it where the test has failed.
            drop(received.send(request(&stream)));
            let length = answer.len();
            let headers = format!("content-length: {length}\r\nconnection: close");
            write!(stream, "HTTP/1.1 {status}\r\n{headers}\r\n\r\n{answer}").unwrap();
        }
    });
    (address, requests)
}

fn request(stream: &TcpStream) -> Request {
    let mut reader = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).unwrap();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(bytes) = line.strip_prefix("content-length:") {
            length = bytes.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let first = first.trim().trim_end_matches(" HTTP/1.1").to_owned();
    (first, serde_json::from_slice(&body).unwrap_or_default())
}
