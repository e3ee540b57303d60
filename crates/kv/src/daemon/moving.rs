//! A daemon and the map of hash slots: its shard has what that says, and what is to go from here goes.

use farcall::{CallError, Outcome};

use super::Daemon;
use crate::placement::{Keeper, Mover, TakesParts, tell};
use crate::replicated::{WayToBackups, read_part};
use crate::wire::Code;

impl Daemon<'_> {
    /// Follows the map of hash slots that a keeper knows.
    pub fn follow_map(&mut self, keeper: Keeper) {
        let mut mover = Mover::new(keeper, self.shards.own());
        mover.adopt(self.shard.shard(), self.endpoint.clock().now());
        self.shard.release();
        self.mover = Some(mover);
    }

    /// Takes parts of shards whose primaries are gone, when the map says so; they are read over this way.
    pub fn take_parts(&mut self, way: WayToBackups) {
        if let Some(mover) = &mut self.mover {
            mover.take_parts(TakesParts(Box::new(move |part| read_part(&way, part))));
        }
    }

    /// Follows the map, and does the next step of a move; says whether something happened.
    #[inline]
    pub(super) fn move_slots(&mut self) -> usize {
        let Self { mover: Some(mover), endpoint, shard, shards, .. } = self else { return 0 };
        let mut done = 0;
        if mover.has_news() {
            let ended = mover.adopt(shard.shard(), endpoint.clock().now());
            if let Some(peer) = ended.and_then(|to| shards.peer(endpoint, to)) {
                tell(endpoint, peer);
            }
            // Redis clients may have waited for it.
            shard.log_turned(true);
            done += 1;
        }
        if mover.is_working() {
            let to = mover.destination().and_then(|to| shards.peer(endpoint, to));
            done += usize::from(mover.turn(endpoint, to, shard.shard()));
        }
        done
    }
}

/// Whether a shard has refused because the object's hash slot is another one's, or about to be.
pub fn is_elsewhere(outcome: &Outcome<'_>) -> bool {
    let codes = [Code::WrongShard, Code::SlotsMoving].map(|code| code as u8);
    matches!(outcome, Err(CallError::Refused { code, .. }) if codes.contains(code))
}
