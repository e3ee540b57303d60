//! The recorder of a process: it keeps the slowest spans, and a thread of its own writes them.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::thread::JoinHandle;

use farcall_driver::CounterFile;

use super::otlp::{Origin, Resource, lines};
use super::slowest::{Keep, Slowest};
use super::span::{Span, SpanKind};

farcall_driver::declare_counters! {
    /// The spans and contexts of a process.
    pub struct SpanCounters {
        ended: "spans" => "Spans that ended while they were recorded",
        names_left_out: "spans" => "Spans of names that found no room in their window",
        written: "spans" => "Slowest spans that were written",
        not_written: "spans" => "Slowest spans that were lost because the file or pipe took them not",
        malformed_contexts: "headers" => "Trace contexts of peers that were malformed or over their bounds, and dropped",
    }
}

/// The counters, which any thread may have, one at a time. They are there from the first use on.
fn counters() -> MutexGuard<'static, SpanCounters> {
    static COUNTERS: OnceLock<Mutex<SpanCounters>> = OnceLock::new();
    let new = || Mutex::new(SpanCounters::new(CounterFile::process(), "spans"));
    COUNTERS.get_or_init(new).lock().unwrap_or_else(PoisonError::into_inner)
}

/// A context of a peer was dropped.
pub(super) fn count_malformed() {
    counters().malformed_contexts.increment();
}

/// Whether there is a recorder: all that calls of traced services pay without one.
static IS_RECORDED: AtomicBool = AtomicBool::new(false);
static RECORDER: RwLock<Option<Arc<Recording>>> = RwLock::new(None);

/// What spans are given to when they end.
#[derive(Debug)]
pub(super) struct Recording {
    /// Whose it is: in a forked child nothing writes what it keeps.
    process: u32,
    window: Mutex<Window>,
    is_over: Condvar,
}

#[derive(Debug)]
struct Window {
    slowest: Slowest,
    is_over: bool,
}

/// The recorder, if there is one.
pub(super) fn recording() -> Option<Arc<Recording>> {
    if !IS_RECORDED.load(Ordering::Relaxed) {
        return None;
    }
    let recording = RECORDER.read().unwrap_or_else(PoisonError::into_inner).clone();
    recording.filter(|recording| recording.is_here())
}

impl Recording {
    fn is_here(&self) -> bool {
        self.process == std::process::id()
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a span that has ended is one of the slowest so far.
    pub fn wants(&self, kind: SpanKind, name: &str, nanos: u64) -> bool {
        let window = self.window();
        let (wants, has_room) =
            (window.slowest.wants(kind, name, nanos), window.slowest.has_room(kind, name));
        drop(window);
        counters().names_left_out.add(u64::from(!has_room));
        wants
    }

    pub fn add(&self, span: Span) {
        self.window().slowest.add(span);
    }

    /// Counts a span that has ended, and that was added if it is wanted.
    pub fn count(&self) {
        counters().ended.increment();
    }

    /// The spans of a window when it is over, and whether it is the last.
    fn next(&self, length: Duration) -> (Vec<Span>, bool) {
        let window = self.window();
        let waited = self.is_over.wait_timeout_while(window, length, |window| !window.is_over);
        let (mut window, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (window.slowest.take(), window.is_over)
    }
}

/// Why a process cannot record.
#[derive(Debug, thiserror::Error)]
pub enum RecorderError {
    /// There is one recorder of a process.
    #[error("the process records spans already; drop the other recorder first")]
    Already,
    /// The system has no thread to give.
    #[error("there is no thread that writes the spans: {0}")]
    Thread(#[from] io::Error),
}

/// Keeps the slowest spans of this process and writes them at the end of each window, until it is dropped;
/// then it writes those of the last one. A forked child does not record: it may have a recorder of its own.
#[derive(Debug)]
pub struct SpanRecorder {
    recording: Arc<Recording>,
    writer: Option<JoinHandle<()>>,
}

impl SpanRecorder {
    /// Begins to record: from now on both ends of calls of traced services in this process are spans. They
    /// are written as [`lines`] to `to`, by a thread of their own. What `to` does not take is lost and
    /// counted.
    ///
    /// # Errors
    /// The process has a recorder, or the system no thread.
    pub fn start(
        resource: Resource,
        keep: Keep,
        to: impl Write + Send + 'static,
    ) -> Result<Self, RecorderError> {
        let window = Mutex::new(Window { slowest: Slowest::new(keep.slowest), is_over: false });
        let process = std::process::id();
        let recording = Arc::new(Recording { process, window, is_over: Condvar::new() });
        let mut recorder = RECORDER.write().unwrap_or_else(PoisonError::into_inner);
        if recorder.as_ref().is_some_and(|recorder| recorder.is_here()) {
            return Err(RecorderError::Already);
        }
        let of_writer = Arc::clone(&recording);
        let write = move || {
            let mut to = WholeLines::to(to);
            loop {
                let (spans, is_over) = of_writer.next(keep.window);
                write(&resource, &spans, &mut to);
                if is_over {
                    return;
                }
            }
        };
        let writer = std::thread::Builder::new().name("farcall-spans".to_owned()).spawn(write)?;
        *recorder = Some(Arc::clone(&recording));
        IS_RECORDED.store(true, Ordering::Relaxed);
        Ok(Self { recording, writer: Some(writer) })
    }
}

impl Drop for SpanRecorder {
    fn drop(&mut self) {
        if !self.recording.is_here() {
            // A forked child has neither the thread nor its number.
            return self.writer.take().map_or((), core::mem::forget);
        }
        IS_RECORDED.store(false, Ordering::Relaxed);
        *RECORDER.write().unwrap_or_else(PoisonError::into_inner) = None;
        self.recording.window().is_over = true;
        self.recording.is_over.notify_all();
        if let Some(writer) = self.writer.take() {
            // What it could not write it has counted; a writer that panicked has said so.
            _ = writer.join();
        }
    }
}

fn write(resource: &Resource, spans: &[Span], to: &mut WholeLines<impl Write>) {
    if spans.is_empty() {
        return;
    }
    let text = lines(resource, Origin::now(), spans);
    let outcome = to.write(text.as_bytes());
    let counters = counters();
    let counter = if outcome.is_ok() { counters.written } else { counters.not_written };
    counter.add(spans.len() as u64);
}

/// Lines to a file or pipe that may take a part of them: what follows such a part begins a line.
struct WholeLines<W> {
    to: W,
    /// The end of what was taken last is no end of a line.
    is_torn: bool,
}

impl<W: Write> WholeLines<W> {
    fn to(to: W) -> Self {
        Self { to, is_torn: false }
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.is_torn {
            self.write_all(b"\n")?;
        }
        self.write_all(lines)?;
        self.to.flush()
    }

    fn write_all(&mut self, mut rest: &[u8]) -> io::Result<()> {
        while !rest.is_empty() {
            match self.to.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(taken) => {
                    self.is_torn = rest[taken - 1] != b'\n';
                    rest = &rest[taken..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes as many bytes as each number says, and fails in between.
    struct Full {
        takes: Vec<usize>,
        taken: Vec<u8>,
    }

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let takes = if self.takes.is_empty() { bytes.len() } else { self.takes.remove(0) };
            let takes = takes.min(bytes.len());
            self.taken.extend_from_slice(&bytes[..takes]);
            if takes == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(takes) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_that_was_taken_in_part_joins_no_other() {
        for (takes, expected) in [
            (vec![3, 0], "one\ntwo\nthree\n"),
            (vec![2, 0, 0], "on\nthree\n"),
            (vec![4, 0], "one\nthree\n"),
            (vec![0], "two\nthree\n"),
        ] {
            let mut to = WholeLines::to(Full { takes: takes.clone(), taken: Vec::new() });
            assert!(to.write(b"one\n").is_ok() == (takes[0] == 4), "{takes:?}");
            let outcomes = [to.write(b"two\n"), to.write(b"three\n")];
            assert!(outcomes[1].is_ok(), "{takes:?}");
            assert_eq!(String::from_utf8_lossy(&to.to.taken), expected, "{takes:?}");
        }
    }
}
