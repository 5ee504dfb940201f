//! Connections, and what they ask for. Each has a thread; there are few, all from this machine.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::collection::Collection;
use super::curves::{MOST, curves};
use super::details::{Kind, details};
use super::http::{Answer, NOTHING, Request, head};
use super::page;
use super::summary::summary;
use super::walls::{Walls, path, random_word};

/// Largest number of connections at the same time.
const MOST_CONNECTIONS: usize = 64;
/// A browser that is silent for longer is given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often an open page's runs are looked at.
const INTERVAL: Duration = Duration::from_secs(2);
/// Runs that were looked at within this are not looked at again.
const FRESH: Duration = Duration::from_millis(500);
/// After this many looks without a change a page is sent a sign of life, by which its end is noticed.
const SILENT_LOOKS: u32 = 8;

/// A run's page in a frame: its text and its style, and none of its scripts.
const FRAMED: &str =
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'";

/// The page's server.
pub(super) struct Server {
    walls: Walls,
    known: Mutex<Known>,
    connections: AtomicUsize,
}

/// The runs, and the table that was made of them last.
struct Known {
    collection: Collection,
    looked: Instant,
    summary: Option<(u64, Arc<Vec<u8>>)>,
}

impl Known {
    fn refresh(&mut self) {
        if self.looked.elapsed() >= FRESH {
            self.collection.refresh();
            self.looked = Instant::now();
        }
    }

    fn summary(&mut self) -> io::Result<Arc<Vec<u8>>> {
        let version = self.collection.version();
        if let Some((of, bytes)) = &self.summary
            && *of == version
        {
            return Ok(Arc::clone(bytes));
        }
        let bytes = Arc::new(serde_json::to_vec(&summary(&self.collection))?);
        self.summary = Some((version, Arc::clone(&bytes)));
        Ok(bytes)
    }
}

impl Server {
    pub(super) fn new(walls: Walls, collection: Collection) -> Server {
        Server {
            walls,
            known: Mutex::new(Known {
                collection,
                looked: Instant::now(),
                summary: None,
            }),
            connections: AtomicUsize::new(0),
        }
    }

    /// Answers requests until the process ends.
    pub(super) fn listen(self, listener: &TcpListener) {
        let server = Arc::new(self);
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                // Such as too many open files: it passes as connections end.
                thread::sleep(Duration::from_millis(100));
                continue;
            };
            let place = Place::of(&server);
            let named = thread::Builder::new().name("board".to_owned());
            // Without a thread the connection is closed, and a browser asks again.
            drop(named.spawn(move || drop(place.serve(stream))));
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // What a thread that panicked has left is refreshed like the rest.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let request = match Request::read(&mut stream)? {
            Ok(request) => request,
            Err(answer) => return answer.write(&mut stream),
        };
        let answer = match self.walls.admit(&request) {
            Err(answer) => answer,
            Ok(("events", query)) => return self.events(stream, query),
            Ok((asked, _)) => self.answer(asked).unwrap_or_else(|error| {
                Answer::refusal(404, &format!("it can't be read: {error}"))
            }),
        };
        answer.write(&mut stream)
    }

    fn answer(&self, asked: &str) -> io::Result<Answer> {
        if asked.is_empty() {
            let nonce = random_word().map_err(io::Error::other)?;
            let policy = format!("{}; frame-ancestors 'none'", page::policy(&nonce));
            let page = page::page(&nonce, None);
            return Ok(Answer::new(
                "text/html; charset=utf-8",
                &policy,
                page.into_bytes(),
            ));
        }
        if asked == "runs.json" {
            let mut known = self.known();
            known.refresh();
            let bytes = known.summary()?;
            drop(known);
            return Ok(Answer::json(bytes.to_vec()));
        }
        let found = asked.split_once('/').and_then(|(what, encoded)| {
            let path = path(encoded)?;
            match what {
                "curves" => self.curves(&path),
                "details" => self.details(&path),
                "file" => self.file(&path),
                _ => None,
            }
        });
        found.unwrap_or_else(|| Err(io::ErrorKind::NotFound.into()))
    }

    fn curves(&self, run: &str) -> Option<io::Result<Answer>> {
        let known = self.known();
        known.collection.runs().get(run)?;
        let run = known.collection.read(run)?;
        drop(known);
        let bytes = serde_json::to_vec(&curves(&run, MOST));
        Some(bytes.map(Answer::json).map_err(io::Error::from))
    }

    fn details(&self, run: &str) -> Option<io::Result<Answer>> {
        let details = details(&self.known().collection, run)?;
        let bytes = serde_json::to_vec(&details);
        Some(bytes.map(Answer::json).map_err(io::Error::from))
    }

    /// A file of a run that a page shows.
    fn file(&self, path: &str) -> Option<io::Result<Answer>> {
        let (kind, media_type) = Kind::of(path)?;
        let known = self.known();
        let mut above = Path::new(path).ancestors().skip(1);
        let is_of_run = above.any(|above| {
            let runs = known.collection.runs();
            above.to_str().is_some_and(|above| runs.contains_key(above))
        });
        let file = is_of_run.then(|| known.collection.inside().file(Path::new(path)))?;
        drop(known);
        let policy = if kind == Kind::Text { NOTHING } else { FRAMED };
        Some(file.and_then(|mut file| {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(Answer::new(media_type, policy, bytes))
        }))
    }

    /// Sends the table's version whenever it is another than the page has, as server-sent events.
    fn events(&self, mut stream: TcpStream, query: &str) -> io::Result<()> {
        let since = query
            .strip_prefix("since=")
            .and_then(|since| since.parse().ok());
        let mut sent: Option<u64> = since;
        let head = head(200, "text/event-stream", NOTHING);
        stream.write_all(format!("{head}\r\n: changes of runs\n\n").as_bytes())?;
        let mut silent = 0;
        loop {
            let version = {
                let mut known = self.known();
                known.refresh();
                known.collection.version()
            };
            silent += 1;
            if sent != Some(version) {
                stream.write_all(format!("data: {version}\n\n").as_bytes())?;
                sent = Some(version);
                silent = 0;
            } else if silent >= SILENT_LOOKS {
                stream.write_all(b":\n\n")?;
                silent = 0;
            }
            thread::sleep(INTERVAL);
        }
    }
}

/// A connection among those that there may be.
struct Place(Arc<Server>);

impl Place {
    fn of(server: &Arc<Server>) -> Place {
        server.connections.fetch_add(1, Ordering::Relaxed);
        Place(Arc::clone(server))
    }

    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        if self.0.connections.load(Ordering::Relaxed) > MOST_CONNECTIONS {
            return Answer::refusal(503, "too many pages are open").write(&mut stream);
        }
        self.0.serve(stream)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
