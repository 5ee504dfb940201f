//! Requests and answers as bytes: what of HTTP/1.1 a page needs. Every connection has one request, without a body.

use std::io::{self, Read, Write};

/// Largest head of a request in bytes.
const LARGEST: usize = 16 << 10;
/// Largest number of header lines.
const MOST_HEADERS: usize = 64;

/// What is asked for.
#[derive(Debug, Default)]
pub(super) struct Request {
    pub(super) method: String,
    /// Path and query, as they were sent.
    pub(super) target: String,
    pub(super) hosts: Vec<String>,
    pub(super) origins: Vec<String>,
}

impl Request {
    /// Reads a request's head.
    ///
    /// # Errors
    ///
    /// If the connection fails, or the answer to what is not a request.
    pub(super) fn read(stream: &mut impl Read) -> io::Result<Result<Request, Answer>> {
        let mut bytes = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let count = stream.read(&mut buffer)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            bytes.extend_from_slice(buffer.get(..count).unwrap_or_default());
            match Request::parse(&bytes) {
                Ok(None) if bytes.len() > LARGEST => {
                    return Ok(Err(Answer::refusal(431, "the request is too long")));
                }
                Ok(None) => {}
                Ok(Some(request)) => return Ok(Ok(request)),
                Err(answer) => return Ok(Err(answer)),
            }
        }
    }

    /// Parses a head; none if it is not complete.
    fn parse(bytes: &[u8]) -> Result<Option<Request>, Answer> {
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut parsed = httparse::Request::new(&mut headers);
        match parsed.parse(bytes) {
            Ok(httparse::Status::Partial) => return Ok(None),
            Ok(httparse::Status::Complete(_)) => {}
            Err(error) => {
                let words = format!("this is not a request of HTTP: {error}");
                return Err(Answer::refusal(400, &words));
            }
        }
        let all = |name: &str| {
            let lines = parsed.headers.iter();
            let lines = lines.filter(|line| line.name.eq_ignore_ascii_case(name));
            let values = lines.map(|line| String::from_utf8_lossy(line.value).into_owned());
            values.collect::<Vec<_>>()
        };
        Ok(Some(Request {
            method: parsed.method.unwrap_or_default().to_owned(),
            target: parsed.path.unwrap_or_default().to_owned(),
            hosts: all("host"),
            origins: all("origin"),
        }))
    }
}

/// What is answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    media_type: &'static str,
    /// Content security policy: what a browser may do with the answer.
    policy: String,
    pub(super) body: Vec<u8>,
}

/// Nothing but showing it.
pub(super) const NOTHING: &str = "default-src 'none'; frame-ancestors 'none'";

impl Answer {
    pub(super) fn new(media_type: &'static str, policy: &str, body: Vec<u8>) -> Answer {
        Answer {
            status: 200,
            media_type,
            policy: policy.to_owned(),
            body,
        }
    }

    pub(super) fn json(body: Vec<u8>) -> Answer {
        Answer::new("application/json", NOTHING, body)
    }

    /// An answer that says why there is no other.
    pub(super) fn refusal(status: u16, words: &str) -> Answer {
        let body = format!("{words}\n").into_bytes();
        Answer {
            status,
            ..Answer::new("text/plain; charset=utf-8", NOTHING, body)
        }
    }

    pub(super) fn write(&self, stream: &mut impl Write) -> io::Result<()> {
        let head = format!(
            "{}Content-Length: {}\r\n\r\n",
            head(self.status, self.media_type, &self.policy),
            self.body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(&self.body)?;
        stream.flush()
    }
}

/// Lines of an answer's head. Nothing of it stays in a cache, is guessed to be of another type, or is lent to pages of others.
pub(super) fn head(status: u16, media_type: &str, policy: &str) -> String {
    let reason = match status {
        200 => "OK",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        431 => "Request Header Fields Too Large",
        _ => "Service Unavailable",
    };
    let allow = if status == 405 { "Allow: GET\r\n" } else { "" };
    format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: {media_type}\r\n{allow}Content-Security-Policy: {policy}\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
         Cross-Origin-Resource-Policy: same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\nConnection: close\r\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mut bytes: &[u8]) -> io::Result<Result<Request, Answer>> {
        Request::read(&mut bytes)
    }

    #[test]
    fn requests_are_read_and_others_are_refused() {
        let request = read(b"GET /a?b HTTP/1.1\r\nHost: x\r\nORIGIN: y\r\n\r\n");
        let request = request.expect("read").expect("a request");
        assert_eq!((&*request.method, &*request.target), ("GET", "/a?b"));
        assert_eq!(
            (request.hosts, request.origins),
            (vec!["x".to_owned()], vec!["y".to_owned()])
        );
        for (bytes, status) in [
            (&b"nonsense\r\n\r\n"[..], 400),
            (
                &[b"GET / HTTP/1.1\r\n", &b"a: b\r\n".repeat(80)[..], b"\r\n"].concat(),
                400,
            ),
            (&[b"GET /", &b"a".repeat(20_000)[..]].concat(), 431),
            (b"\x16\x03\x01\x02\x00\x01\x00", 400),
        ] {
            let answer = read(bytes).expect("read").expect_err("refused");
            assert_eq!(answer.status, status, "{bytes:?}");
        }
        assert!(read(b"GET / HTTP/1.1\r\nHost: x\r\n").is_err());
    }
}
