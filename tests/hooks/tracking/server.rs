//! A small HTTP server on the loopback: it keeps what it is asked and answers as it is told.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

/// A request as the server got it.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// `POST` and so on.
    pub(super) method: String,
    /// The path with its query.
    pub(super) path: String,
    /// The headers, their names in small letters.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|header| header.0 == name)
            .map(|header| header.1.as_str())
    }

    /// The body as JSON.
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }
}

/// A server that runs until the test is over.
pub(super) struct Server {
    pub(super) address: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Answers each request with a status and a body; the number of the request is its second
    /// argument.
    pub(super) fn start(
        mut answer: impl FnMut(&Request, usize) -> (u16, String) + Send + 'static,
    ) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.expect("a connection");
                let request = read(&stream);
                let number = {
                    let mut kept = kept.lock().expect("no other test holds it");
                    kept.push(request.clone());
                    kept.len() - 1
                };
                let (status, body) = answer(&request, number);
                let head = format!(
                    "HTTP/1.1 {status} Told\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                let mut stream = stream;
                // Who has given up waiting is no concern here.
                drop(stream.write_all((head + &body).as_bytes()));
            }
        });
        Server { address, requests }
    }

    /// All requests so far.
    pub(super) fn requests(&self) -> Vec<Request> {
        self.requests
            .lock()
            .expect("no other test holds it")
            .clone()
    }
}

fn read(stream: &TcpStream) -> Request {
    let mut reader = BufReader::new(stream);
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    };
    let first = line();
    let mut words = first.split(' ');
    let mut word = || words.next().unwrap_or_default().to_owned();
    let (method, path) = (word(), word());
    let mut headers = Vec::new();
    loop {
        let header = line();
        let Some((name, value)) = header.split_once(':') else {
            break;
        };
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let mut request = Request {
        method,
        path,
        headers,
        body: Vec::new(),
    };
    let length = request
        .header("content-length")
        .map_or(0, |text| text.parse().expect("a length"));
    request.body.resize(length, 0);
    reader.read_exact(&mut request.body).expect("the body");
    request
}

/// An address that nobody listens at.
pub(super) fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    format!("http://{}", listener.local_addr().expect("an address"))
}
