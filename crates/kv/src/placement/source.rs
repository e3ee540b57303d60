//! The source of a move: it copies, holds the range for a moment, and has the map set.

mod exporter;

use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};

use farcall::{CallError, Endpoint, Instant, Outcome, Peer};

pub use exporter::{Exported, Exporter};

use super::taking::{PartOf, PartTurn, TakesParts, Taking};
use super::{ImportHeader, Keeper, SlotMove, is_refused_for_good};
use crate::Shard;
use crate::wire::{Code, IMPORT, LOOK_AT_MAP};

/// So few objects are left to copy when a range is frozen.
const FREEZE_OBJECTS: usize = 256;

/// A range that is written faster than it is copied is frozen after so many copies of what was written
/// meanwhile, however much is left.
const ROUNDS_MAX: u32 = 64;

/// A range is frozen for no longer before the map is to be set: then it thaws, and the move is given up.
const FROZEN_MAX: Duration = Duration::from_secs(2);

/// A destination that takes no page for so long is not waited for.
const UNTAKEN_MAX: Duration = Duration::from_secs(60);

/// How long a page is not sent again that the destination could not take.
const SEND_AGAIN_AFTER: Duration = Duration::from_millis(10);

/// What came of a page.
type Answered = Arc<Mutex<Option<Result<(), Option<Code>>>>>;

/// Where a move is.
#[derive(Debug)]
enum Step {
    /// What was written meanwhile is copied again, for the how many-th time.
    Copying { round: u32 },
    /// Nobody reads or writes the range. All that was done to it is in this group of the log, or an earlier
    /// one.
    Frozen { since: Instant, group: u64 },
    /// The same; the destination is told that it has everything.
    Sealing { since: Instant, group: u64 },
    /// The map is being set. What comes of it is seen in a later map, and nowhere else.
    Setting,
    /// It is being given up.
    GivingUp,
}

/// A move whose source is this shard.
#[derive(Debug)]
struct Moving {
    of: SlotMove,
    has_begun: bool,
    step: Step,
    exporter: Exporter,
    /// The page that the destination does not have yet, and how many there have been.
    page: Option<Vec<u8>>,
    pages: u64,
    /// When the destination took the last one.
    taken_at: Instant,
    /// Whether it is on its way.
    is_sent: bool,
    answered: Answered,
    send_at: Instant,
}

/// What a daemon does for moves.
#[derive(Debug)]
pub struct Mover {
    keeper: Keeper,
    own: u32,
    moving: Option<Moving>,
    /// A part of a spread that this shard takes, and how such parts are read.
    taking: Option<Taking>,
    takes: Option<TakesParts>,
    version: u64,
    /// Whether the shard may have objects that are another one's.
    drops: bool,
}

impl Mover {
    /// For the shard of this number, which has the keeper's map.
    pub fn new(keeper: Keeper, own: u32) -> Self {
        let version = keeper.version();
        let (moving, taking, takes) = (None, None, None);
        Self { keeper, own, moving, taking, takes, version, drops: version > 0 }
    }

    /// Takes parts of spreads from now on, which are read so.
    pub(crate) fn take_parts(&mut self, takes: TakesParts) {
        self.takes = Some(takes);
        // What the map asks for by now is seen when it is looked at again.
        self.version = u64::MAX;
    }

    /// Whether a turn has something to do.
    #[inline]
    pub fn is_working(&self) -> bool {
        self.moving.is_some() || self.taking.is_some() || self.drops
    }

    /// Whether another map was seen than the shard has.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.keeper.version() != self.version
    }

    /// Gives the shard the map that was seen; gives those who are to look at it as well.
    pub fn adopt(&mut self, shard: &mut Shard, now: Instant) -> Option<u32> {
        let map = self.keeper.map();
        self.version = map.version();
        self.drops = true;
        let ended = self.moving.take_if(|moving| map.moves().iter().all(|it| it.number != moving.of.number));
        if ended.is_some() {
            shard.end_export();
        }
        shard.adopt(&map);
        let is_over = |taking: &Taking| map.spreads().iter().all(|it| it.number != taking.number);
        if self.taking.as_ref().is_none_or(is_over) {
            self.taking = None;
            self.begin_part(shard);
        }
        if self.moving.is_none()
            && let Some(of) = map.moves().iter().find(|it| it.from == self.own)
        {
            let exporter = shard.begin_export(of.range);
            let (step, answered) = (Step::Copying { round: 0 }, Answered::default());
            self.moving = Some(Moving {
                of: *of,
                has_begun: false,
                step,
                exporter,
                page: None,
                pages: 0,
                taken_at: now,
                is_sent: false,
                answered,
                send_at: now,
            });
        }
        ended.map(|ended| ended.of.to)
    }

    /// Begins to take the part of a spread that the map says is this shard's, if there is one.
    fn begin_part(&mut self, shard: &Shard) {
        let map = shard.map();
        let Some(spread) = map.spreads().iter().find(|it| it.destinations().contains(&self.own)) else {
            return;
        };
        let number = spread.number;
        // It has its part, and waits for the others.
        if spread.is_ready(self.own) {
            return;
        }
        let memory_bytes = shard.store().statistics().memory_bytes;
        let part = PartOf { spread: spread.clone(), own: self.own, shards: map.shards(), memory_bytes };
        let begun = match &self.takes {
            Some(takes) => Taking::begin(part, takes),
            None => Err(format!("shard {} takes no parts of others", self.own)),
        };
        match begun {
            Ok(taking) => self.taking = Some(taking),
            Err(reason) => self.keeper.give_up(number, reason),
        }
    }

    /// Has the registry asked for the map now.
    pub fn look(&self) {
        self.keeper.look();
    }

    /// The shard that is to get the next page, if one can be sent.
    pub fn destination(&self) -> Option<u32> {
        self.moving.as_ref().map(|moving| moving.of.to)
    }

    /// Takes over a little of the part of a spread, and drops a little of what is another shard's; says
    /// whether something happened.
    pub(crate) fn turn_of_part(&mut self, shard: &mut Shard) -> bool {
        if self.drops {
            self.drops = shard.drop_others();
        }
        let Some(taking) = &mut self.taking else { return self.drops };
        // What is another shard's goes first: imports never mix with it.
        match taking.turn(shard) {
            PartTurn::Nothing => return self.drops,
            PartTurn::Something => {}
            PartTurn::Ready => self.keeper.part_ready(taking.number, self.own),
            PartTurn::GiveUp(reason) => self.keeper.give_up(taking.number, reason),
        }
        true
    }

    /// Does the next step of the move; says whether something happened.
    pub fn turn(&mut self, endpoint: &Endpoint, to: Option<Peer>, shard: &mut Shard) -> bool {
        let happened = self.turn_of_part(shard);
        if self.taking.is_some() {
            return happened;
        }
        let Some(moving) = &mut self.moving else { return self.drops };
        match moving.turn(endpoint, to, shard) {
            Turn::Nothing => self.drops,
            Turn::Something => true,
            Turn::Set => {
                moving.step = Step::Setting;
                self.keeper.done(moving.of.number);
                true
            }
            Turn::GiveUp(reason) => {
                moving.step = Step::GivingUp;
                // What was noted of the move is of no use, and nothing that the destination has counts.
                shard.end_export();
                self.keeper.give_up(moving.of.number, reason);
                true
            }
        }
    }
}

/// Tells a shard that the map has changed.
pub fn tell(endpoint: &Endpoint, peer: Peer) {
    // One that does not hear it looks by itself, a little later.
    let _ = endpoint.call(peer, LOOK_AT_MAP, &[]).then(|_, _| ());
}

/// What came of a turn.
enum Turn {
    Nothing,
    Something,
    /// Everything is copied: the map is to be set.
    Set,
    GiveUp(String),
}

impl Moving {
    fn turn(&mut self, endpoint: &Endpoint, to: Option<Peer>, shard: &mut Shard) -> Turn {
        let now = endpoint.clock().now();
        match self.step {
            Step::Setting | Step::GivingUp => return Turn::Nothing,
            Step::Frozen { since, .. } | Step::Sealing { since, .. } if now >= since + FROZEN_MAX => {
                return Turn::GiveUp(format!(
                    "what was left was not copied within {FROZEN_MAX:?}: shard {} does not answer in time",
                    self.of.to
                ));
            }
            Step::Copying { .. } | Step::Frozen { .. } | Step::Sealing { .. } => {}
        }
        if self.page.is_some() && now >= self.taken_at + UNTAKEN_MAX {
            return Turn::GiveUp(format!("shard {} has taken nothing for {UNTAKEN_MAX:?}", self.of.to));
        }
        if shard.store_mut().watched().is_some_and(|watched| watched.is_overrun) {
            return Turn::GiveUp("the range is written faster than it is copied".to_owned());
        }
        // Looked at before anything is copied, and again when all of it is.
        if !core::mem::replace(&mut self.has_begun, true)
            && let Some(reason) = self.hindrance(shard)
        {
            return Turn::GiveUp(reason);
        }
        if self.is_sent {
            let answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner).take();
            return match answered {
                None => Turn::Nothing,
                Some(outcome) => self.was_answered(outcome, now),
            };
        }
        if self.page.is_none() && matches!(self.step, Step::Sealing { .. }) {
            return self.go_on(shard, now);
        }
        if self.page.is_none() {
            match self.exporter.next_page(shard.store_mut()) {
                Ok(Exported::Page(page)) => self.has_page(page, now),
                Ok(Exported::Nothing) => return Turn::Something,
                Ok(Exported::All) => return self.go_on(shard, now),
                Err(reason) => return Turn::GiveUp(reason),
            }
        }
        if now >= self.send_at { self.send(endpoint, to, shard, now) } else { Turn::Nothing }
    }

    fn has_page(&mut self, page: Vec<u8>, now: Instant) {
        (self.page, self.pages, self.taken_at) = (Some(page), self.pages + 1, now);
    }

    fn was_answered(&mut self, outcome: Result<(), Option<Code>>, now: Instant) -> Turn {
        self.is_sent = false;
        match outcome {
            Ok(()) => (self.page, self.taken_at) = (None, now),
            Err(Some(code)) if is_refused_for_good(code) => {
                return Turn::GiveUp(format!("shard {} refuses what it is to have: {code:?}", self.of.to));
            }
            // Or the shard has ended, and the next one gives the move up.
            Err(_) => self.send_at = now + SEND_AGAIN_AFTER,
        }
        Turn::Something
    }

    /// Why the range cannot move: what is in memory alone is not copied.
    fn hindrance(&self, shard: &Shard) -> Option<String> {
        let table = shard.memory_table_in(self.of.range)?;
        let table = farcall_base::printable(&table);
        Some(format!("the table `{table}` has objects of these slots and is in memory alone"))
    }

    /// All that there is was copied.
    fn go_on(&mut self, shard: &mut Shard, now: Instant) -> Turn {
        match self.step {
            Step::Copying { round } => {
                let left = self.exporter.take_written(shard.store_mut());
                if let Some(reason) = self.hindrance(shard) {
                    return Turn::GiveUp(reason);
                }
                if left <= FREEZE_OBJECTS || round >= ROUNDS_MAX {
                    let group = shard.freeze(self.of.range);
                    // From here on nothing is written there. What expires, expires at the destination as
                    // well.
                    self.exporter.take_written(shard.store_mut());
                    self.step = Step::Frozen { since: now, group };
                } else {
                    self.step = Step::Copying { round: round + 1 };
                }
                Turn::Something
            }
            Step::Frozen { since, group } => {
                self.step = Step::Sealing { since, group };
                self.has_page(Vec::new(), now);
                Turn::Something
            }
            // What was done once must be known to have been: a client may ask here again.
            Step::Sealing { group, .. } if shard.log_outcome().flushed >= group => Turn::Set,
            Step::Sealing { .. } => Turn::Nothing,
            Step::Setting | Step::GivingUp => Turn::Nothing,
        }
    }

    fn send(&mut self, endpoint: &Endpoint, to: Option<Peer>, shard: &Shard, now: Instant) -> Turn {
        let Some(page) = &self.page else { return Turn::Nothing };
        self.send_at = now + SEND_AGAIN_AFTER;
        let Some(peer) = to else { return Turn::Nothing };
        let mut message = Vec::with_capacity(page.len() + 16);
        let last_version = shard.store().last_version();
        let is_last = matches!(self.step, Step::Sealing { .. });
        let (number, page_number) = (self.of.number, self.pages);
        ImportHeader { number, page: page_number, last_version, is_last }.encode(&mut message);
        message.extend_from_slice(page);
        self.answered = Answered::default();
        let answered = Arc::clone(&self.answered);
        let started = endpoint.call(peer, IMPORT, &message).then(move |_, outcome: &Outcome<'_>| {
            let outcome = match outcome {
                Ok(_) => Ok(()),
                Err(CallError::Refused { code, .. }) => Err(Code::from_wire(*code)),
                Err(_) => Err(None),
            };
            *answered.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        });
        self.is_sent = started.is_ok();
        Turn::Something
    }
}
