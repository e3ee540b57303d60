//! Walks over the elements of a collection, and draws among them.
//!
//! A walk goes from the last place to the first, and its cursor is the number of places that are left. What
//! is removed is replaced by the element at the last place, which the walk has met, or is left out because it
//! is the last one; so an element that is there all the while is met, perhaps twice.

use super::call::{Call, Done, Refusal};
use crate::decimal;
use crate::resp::glob;
use crate::resp::reply::{Protocol, Reply};

/// Places that one call looks at.
const LOOKS_MAX: usize = 4096;

/// Elements that one call draws: with a negative number as many as are asked for.
const DRAWN_MAX: usize = 1 << 20;

/// What a walk is asked for.
pub struct Options<'a> {
    cursor: usize,
    pattern: Option<&'a [u8]>,
    count: usize,
}

/// The cursor in the second argument, and the options behind it.
pub fn options<'a>(call: &Call<'a>) -> Result<Options<'a>, Refusal> {
    let cursor = decimal::parse(call.args.at(2)).and_then(|cursor| usize::try_from(cursor).ok());
    let cursor = cursor.ok_or(Refusal::of("ERR invalid cursor"))?;
    let mut options = Options { cursor, pattern: None, count: 10 };
    for number in (3..call.args.len()).step_by(2) {
        call.args.get(number + 1).ok_or(Refusal::SYNTAX)?;
        match () {
            () if call.is(number, "match") => options.pattern = Some(call.pattern(number + 1)?),
            () if call.is(number, "count") => {
                let count = usize::try_from(call.integer(number + 1)?).ok().filter(|count| *count > 0);
                options.count = count.ok_or(Refusal::SYNTAX)?;
            }
            () => return Err(Refusal::SYNTAX),
        }
    }
    Ok(options)
}

/// Shows some of so many elements by their places; `show` puts those that are wanted into the reply and gives
/// how many parts they are.
pub fn walk(
    reply: &mut Reply,
    options: &Options<'_>,
    length: usize,
    mut show: impl FnMut(&mut Reply, usize, &dyn Fn(&[u8]) -> bool) -> usize,
) {
    let is_wanted = |element: &[u8]| options.pattern.is_none_or(|pattern| glob::is_match(pattern, element));
    let from = if options.cursor == 0 { length } else { options.cursor.min(length) };
    let end =
        from.saturating_sub(options.count.min(glob::looks(options.pattern.unwrap_or_default(), LOOKS_MAX)));
    reply.array(2);
    let (start, mut parts) = (reply.len(), 0);
    for place in (end..from).rev() {
        parts += show(reply, place, &is_wanted);
    }
    reply.insert_array(start, parts);
    reply.insert_bulk(start, end.to_string().as_bytes());
}

/// What was drawn among places.
pub enum Drawn {
    /// One place, or none.
    One(Option<usize>),
    /// Some.
    Many(Vec<usize>),
}

/// Draws places below `length`: as many as an argument says, if it is there; with a negative number some
/// may be drawn repeatedly.
pub fn draw(call: &mut Call<'_>, count_at: usize, length: usize) -> Result<Drawn, Refusal> {
    let mut below = |bound: usize| (call.engine.draw() % bound.max(1) as u64) as usize;
    let Some(count) = call.args.get(count_at) else {
        return Ok(Drawn::One((length > 0).then(|| below(length))));
    };
    let count = decimal::parse(count).ok_or(Refusal::NOT_AN_INTEGER)?;
    if count < 0 && length > 0 {
        let count = usize::try_from(count.unsigned_abs()).ok().filter(|count| *count <= DRAWN_MAX);
        let count = count.ok_or(Refusal::of("ERR value is out of range"))?;
        return Ok(Drawn::Many((0..count).map(|_| below(length)).collect()));
    }
    // Floyd's way to draw some of many: each is drawn once.
    let count = usize::try_from(count).unwrap_or(0).min(length);
    let mut drawn = std::collections::HashSet::with_capacity(count);
    let mut places = Vec::with_capacity(count);
    for last in length - count..length {
        let place = below(last + 1);
        let place = if drawn.insert(place) { place } else { last };
        drawn.insert(place);
        places.push(place);
    }
    Ok(Drawn::Many(places))
}

/// Replies with what was drawn; `show` shows the element at a place, and what is beside it.
pub fn reply_drawn(
    reply: &mut Reply,
    drawn: &Drawn,
    has_both: bool,
    mut show: impl FnMut(&mut Reply, usize, bool),
) -> Done {
    match drawn {
        Drawn::One(None) => reply.null(),
        Drawn::One(Some(place)) => show(reply, *place, false),
        Drawn::Many(places) => {
            let are_pairs = has_both && reply.protocol == Protocol::Resp3;
            reply.array(if has_both && !are_pairs { 2 * places.len() } else { places.len() });
            let start = reply.len();
            for place in places {
                if are_pairs {
                    reply.array(2);
                }
                show(reply, *place, has_both);
                super::call::check_length(reply, start)?;
            }
        }
    }
    Ok(())
}
