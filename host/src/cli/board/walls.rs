//! Which requests are refused. The page is for the user of this machine who was shown its address: not for other users of it,
//! and not for pages of other sites in the same browser, which can send requests to any address.
//!
//! - The address has a random token; without it nothing is answered.
//! - `Host` is this machine by its name or number: a name of another site that leads here (DNS rebinding) is refused.
//! - `Origin`, where a browser sends one, is the page itself.
//! - Paths lead downwards.

use super::http::{Answer, Request};

/// Who may ask.
pub(super) struct Walls {
    port: u16,
    token: String,
}

impl Walls {
    /// For a page on this port, with a new token.
    ///
    /// # Errors
    ///
    /// If the system has no random numbers.
    pub(super) fn new(port: u16) -> Result<Walls, getrandom::Error> {
        let token = random_word()?;
        Ok(Walls { port, token })
    }

    /// The page's address.
    pub(super) fn address(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.port, self.token)
    }

    /// What is asked for, which is what follows the token: a path, and a query or nothing.
    ///
    /// # Errors
    ///
    /// Why the request is refused.
    pub(super) fn admit<'a>(&self, request: &'a Request) -> Result<(&'a str, &'a str), Answer> {
        let own = ["127.0.0.1", "localhost"].map(|host| format!("{host}:{}", self.port));
        let is_here = matches!(&*request.hosts, [host] if own.contains(host));
        if !is_here {
            let words =
                "this page is only for the machine that it is on, by `127.0.0.1` or `localhost`";
            return Err(Answer::refusal(403, words));
        }
        let is_ours = |origin: &String| {
            let host = origin.strip_prefix("http://");
            host.is_some_and(|host| own.iter().any(|own| own == host))
        };
        if !request.origins.iter().all(is_ours) {
            let words = "requests from pages of other origins are refused";
            return Err(Answer::refusal(403, words));
        }
        let inner = request.target.strip_prefix('/');
        let (token, asked) = inner
            .and_then(|inner| inner.split_once('/'))
            .unwrap_or_default();
        if !is_same(token.as_bytes(), self.token.as_bytes()) {
            let words = "this is not the address that `sconce board` printed";
            return Err(Answer::refusal(403, words));
        }
        if request.method != "GET" {
            return Err(Answer::refusal(405, "the page is only looked at: `GET`"));
        }
        Ok(asked.split_once('?').unwrap_or((asked, "")))
    }
}

/// A random word of 32 hexadecimal digits.
///
/// # Errors
///
/// If the system has no random numbers.
pub(super) fn random_word() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

/// Whether two texts are the same, in a time that doesn't depend on where they differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let pairs = one.iter().zip(other);
    let different = pairs.fold(0, |different, (a, b)| {
        std::hint::black_box(different | (a ^ b))
    });
    one.len() == other.len() && different == 0
}

/// A relative path with its percent-encoding undone; none if it leads anywhere but downwards, or is not UTF-8.
pub(super) fn path(encoded: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = encoded.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            bytes.push(u8::try_from(digit()? * 16 + digit()?).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    let path = String::from_utf8(bytes).ok()?;
    let is_plain = |part: &str| {
        let mut characters = part.chars();
        !matches!(part, "" | "." | "..") && !characters.any(|c| c.is_control() || c == '\\')
    };
    path.split('/').all(is_plain).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(walls: &Walls, target: &str, host: &str, origin: Option<&str>) -> u16 {
        let request = Request {
            method: "GET".to_owned(),
            target: target.to_owned(),
            hosts: vec![host.to_owned()],
            origins: origin.map(str::to_owned).into_iter().collect(),
        };
        walls
            .admit(&request)
            .map_or_else(|answer| answer.status, |_| 200)
    }

    #[test]
    fn only_the_page_itself_is_answered() {
        let walls = Walls::new(4000).expect("random");
        let target = format!("/{}/runs.json", walls.token);
        let ask =
            |target: &str, host: &str, origin: Option<&str>| ask(&walls, target, host, origin);
        for host in ["127.0.0.1:4000", "localhost:4000"] {
            assert_eq!(ask(&target, host, None), 200);
            let origin = format!("http://{host}");
            assert_eq!(ask(&target, host, Some(&origin)), 200);
        }
        for host in [
            "evil.example:4000",
            "127.0.0.1",
            "127.0.0.1:4001",
            "",
            "[::1]:4000",
        ] {
            assert_eq!(ask(&target, host, None), 403, "{host}");
        }
        for origin in [
            "http://evil.example",
            "null",
            "",
            "https://127.0.0.1:4000",
            "http://127.0.0.1",
        ] {
            assert_eq!(
                ask(&target, "127.0.0.1:4000", Some(origin)),
                403,
                "{origin}"
            );
        }
        let shorter = walls.token.get(1..).expect("digits");
        let wrong = "0".repeat(32);
        for token in ["", "x", shorter, &*wrong, &*format!("{}0", walls.token)] {
            let target = format!("/{token}/runs.json");
            assert_eq!(ask(&target, "127.0.0.1:4000", None), 403, "{token}");
        }
        for target in [
            "",
            "*",
            &*walls.token,
            &*format!("http://127.0.0.1:4000{target}"),
        ] {
            assert_eq!(ask(target, "127.0.0.1:4000", None), 403, "{target}");
        }
        assert_ne!(walls.token, Walls::new(4000).expect("random").token);
    }

    #[test]
    fn one_host_may_be_named_and_things_are_only_looked_at() {
        let walls = Walls::new(4000).expect("random");
        let target = format!("/{}/runs.json", walls.token);
        let request = |method: &str, hosts: &[&str]| Request {
            method: method.to_owned(),
            target: target.clone(),
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            origins: Vec::new(),
        };
        let status = |request: &Request| match walls.admit(request) {
            Ok((path, query)) => Ok((path.to_owned(), query.to_owned())),
            Err(answer) => Err(answer.status),
        };
        let own = "localhost:4000";
        assert_eq!(status(&request("POST", &[own])), Err(405));
        assert_eq!(status(&request("GET", &[own, own])), Err(403));
        assert_eq!(status(&request("GET", &[])), Err(403));
        assert_eq!(
            status(&request("GET", &[own])),
            Ok(("runs.json".to_owned(), String::new()))
        );
    }

    #[test]
    fn paths_lead_downwards() {
        for (encoded, expected) in [
            ("a/b.png", Some("a/b.png")),
            ("a%20b/%c3%a9", Some("a b/é")),
            ("a/..b", Some("a/..b")),
            ("../a", None),
            ("a/%2e%2e/b", None),
            ("a/%2E./b", None),
            ("%2Fetc/passwd", None),
            ("/etc/passwd", None),
            ("a//b", None),
            ("a%5c..%5cb", None),
            ("a%00", None),
            ("a%ff", None),
            ("a%2", None),
            ("a%zz", None),
            (".", None),
            ("", None),
        ] {
            assert_eq!(path(encoded).as_deref(), expected, "{encoded}");
        }
    }
}
