//! A terminal to run the binary on: what it writes, and what stands there in the end.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use sconce_tests::Workplace;

/// Runs `manifest.json` with a terminal of so many columns behind standard error; all that was
/// written to it.
pub(super) fn run(place: &Workplace, columns: u16, kind: &str) -> String {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&controller).expect("granted");
    unlockpt(&controller).expect("unlocked");
    let size = Winsize {
        ws_row: 24,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&controller, size).expect("a size");
    let name = ptsname(&controller, Vec::new()).expect("a name");
    let name = name.into_string().expect("a path");
    let screen = File::options()
        .read(true)
        .write(true)
        .open(name)
        .expect("opened");
    let mut command = place.command(&["run", "manifest.json"]);
    command
        .env("TERM", kind)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::from(screen));
    let mut child = command.spawn().expect("started");
    // The last handle of the screen but the child's: reading ends with the child.
    drop(command);
    let text = read(controller);
    assert!(child.wait().expect("ended").success(), "{text}");
    text
}

fn read(controller: OwnedFd) -> String {
    let mut controller = File::from(controller);
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    // The end is an error on Linux: nobody is left on the other side.
    while let Ok(count @ 1..) = controller.read(&mut buffer) {
        all.extend_from_slice(&buffer[..count]);
    }
    String::from_utf8(all).expect("text")
}

/// The lines that stand on the terminal after it was written to; it knows what the host writes: line
/// ends, returns, and clearing to the end of the line.
pub(super) fn lines(text: &str) -> Vec<String> {
    let mut lines = vec![Vec::new()];
    let mut column = 0;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        let line = lines.last_mut().expect("a line");
        match c {
            '\r' => column = 0,
            '\n' => {
                lines.push(Vec::new());
                column = 0;
            }
            '\x1b' => {
                rest = rest.strip_prefix("[K").expect("the one escape");
                line.truncate(column);
            }
            c => {
                line.truncate(line.len().max(column));
                if column < line.len() {
                    line[column] = c;
                } else {
                    line.push(c);
                }
                column += 1;
            }
        }
    }
    lines
        .into_iter()
        .map(|line| line.into_iter().collect())
        .collect()
}
