//! Lines from a program that runs beside the tuner. One that hangs, or never ends its line, is not waited
//! for.

use core::time::Duration;
use std::io::{BufRead, BufReader};
use std::process::ChildStdout;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The longest answer, in bytes: a batch of rows, or the figures of a trial, are far below.
const ANSWER_MAX: usize = 1 << 20;

/// The longest wait between two looks at whether somebody wants to stop.
const LOOK: Duration = Duration::from_millis(200);

/// What a program says, line by line.
#[derive(Debug)]
pub struct Answers {
    output: BufReader<ChildStdout>,
}

/// Why there is no line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Silence {
    /// The deadline came first.
    Late,
    /// The program ended.
    Ended,
    /// The line has no end within reason.
    Endless,
    /// Somebody wants the tuning to stop.
    Interrupted,
    /// The pipe cannot be read.
    Broken(String),
}

/// What a program did that nobody asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unasked {
    /// It waits.
    Nothing,
    /// It said more than was asked: its next answer would be taken for that of another question.
    Words,
    /// It ended.
    End,
}

impl Answers {
    /// The lines of this output.
    pub fn new(output: ChildStdout) -> Self {
        Self { output: BufReader::new(output) }
    }

    /// The next line, without its end.
    pub fn line(&mut self, deadline: Instant, stop: impl Fn() -> bool) -> Result<String, Silence> {
        let mut line = Vec::new();
        while line.len() < ANSWER_MAX {
            if self.output.buffer().is_empty() {
                self.wait(deadline, &stop)?;
            }
            let heard = match self.output.fill_buf() {
                Ok([]) => return Err(Silence::Ended),
                Ok(heard) => heard,
                Err(error) => return Err(Silence::Broken(error.to_string())),
            };
            let end = heard.iter().position(|byte| *byte == b'\n');
            line.extend_from_slice(&heard[..end.unwrap_or(heard.len())]);
            let used = end.map_or(heard.len(), |end| end + 1);
            self.output.consume(used);
            if end.is_some() {
                return Ok(String::from_utf8_lossy(&line).into_owned());
            }
        }
        Err(Silence::Endless)
    }

    /// What the program does between two questions.
    pub fn unasked(&mut self) -> Unasked {
        if !self.output.buffer().is_empty() {
            return Unasked::Words;
        }
        let mut fds = [PollFd::new(self.output.get_ref(), PollFlags::IN)];
        if poll(&mut fds, Some(&Timespec::default())).unwrap_or(0) == 0 {
            return Unasked::Nothing;
        }
        match self.output.fill_buf() {
            Ok([]) | Err(_) => Unasked::End,
            Ok(_) => Unasked::Words,
        }
    }

    /// Until there is something to read, or the end of it.
    fn wait(&self, deadline: Instant, stop: &impl Fn() -> bool) -> Result<(), Silence> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let span = left.min(LOOK);
            let span = Timespec { tv_sec: span.as_secs() as i64, tv_nsec: i64::from(span.subsec_nanos()) };
            let ready = poll(&mut [PollFd::new(self.output.get_ref(), PollFlags::IN)], Some(&span));
            // A signal that interrupts the wait is what `stop` knows of.
            match ready.unwrap_or(0) {
                0 if stop() => return Err(Silence::Interrupted),
                0 if left.is_zero() => return Err(Silence::Late),
                0 => {}
                _ => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn heard(script: &str, patience: Duration, stop: bool) -> Result<String, Silence> {
        let mut command = Command::new("sh");
        let mut child =
            command.args(["-c", script]).stdout(Stdio::piped()).spawn().expect("there is a shell");
        let mut answers = Answers::new(child.stdout.take().expect("it is piped"));
        let line = answers.line(Instant::now() + patience, || stop);
        let _ = child.kill();
        child.wait().expect("it is ours");
        line
    }

    /// Longer than any test.
    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn a_line_may_come_in_pieces() {
        assert_eq!(heard("printf a; printf 'b\\nc'", LONG, false), Ok("ab".to_owned()));
    }

    #[test]
    fn silence_has_its_reason() {
        let half = "printf half; exec sleep 1000";
        assert_eq!(heard(half, Duration::from_millis(20), false), Err(Silence::Late));
        assert_eq!(heard(half, LONG, true), Err(Silence::Interrupted));
        assert_eq!(heard("printf half", LONG, false), Err(Silence::Ended));
        assert_eq!(heard("exec cat /dev/zero", LONG, false), Err(Silence::Endless));
    }
}
