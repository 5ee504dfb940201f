//! The kill test: runs that are struck at random points and gone on with until they are done must
//! have the results of a run that nothing has happened to, to the bit.
//!
//! `cargo run -p sconce-tests --bin kill -- [POINTS [SEED]]`; default 100 points. Which blow falls
//! is a matter of seed and number alone; what a blow after some time hits is one of the machine's,
//! but the verdict is not.
#![allow(clippy::print_stdout, reason = "it talks to whoever runs it")]

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    use sconce_tests::kill::{blow, straight, survive};

    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| {
        let argument = arguments.next();
        argument.map_or(Some(default), |text| text.parse().ok())
    };
    let (Some(points), Some(seed)) = (number(100), number(1)) else {
        println!("usage: kill [POINTS [SEED]]");
        return 2.into();
    };
    let expected = straight();
    let mut same = 0;
    for point in 0..points {
        let blow = blow(seed, point);
        let (results, attempts) = survive(&blow);
        let is_same = results == expected;
        same += u64::from(is_same);
        let verdict = if is_same { "same bits" } else { "OTHER BITS" };
        println!("{point}: {blow:?}: {verdict} after {attempts} runs");
    }
    println!("{same} of {points} runs have the bits of the one never struck");
    u8::from(same != points).into()
}

#[cfg(not(unix))]
fn main() {
    println!("there are no signals here");
}
