//! What is said at a life port: a question of 32 bytes, and an answer of 24.
//!
//! Both prove the key that the asked process told its peers in their sessions, and the answer repeats the
//! number that the question drew. So nobody without the key is answered, nobody without it can answer, and
//! an answer counts once. Who answers says no more than the asker knows: that the endpoint is there, or is
//! not any more.

use super::place::{Key, Place};

pub const QUESTION_BYTES: usize = 32;
pub const ANSWER_BYTES: usize = 24;

/// The first bytes of a question; the last two digits are the version.
const MAGIC: [u8; 8] = *b"fclife01";
const QUESTION: [u8; 8] = *b"question";
const ANSWER: [u8; 8] = *b"answers!";

/// Whether a process still has an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    pub endpoint: u64,
    /// Drawn for this question.
    pub number: u64,
}

impl Question {
    pub fn to_bytes(self, key: Key) -> [u8; QUESTION_BYTES] {
        let code = key.prove(QUESTION, &[self.endpoint, self.number]);
        let mut bytes = [0; QUESTION_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.endpoint.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..].copy_from_slice(&code.to_le_bytes());
        bytes
    }

    /// What a peer asks; `None` from strangers.
    pub fn read(bytes: &[u8; QUESTION_BYTES], key: Key) -> Option<Self> {
        let question = Self { endpoint: word(bytes, 8), number: word(bytes, 16) };
        (question.to_bytes(key) == *bytes).then_some(question)
    }

    /// What the asked process says.
    pub fn answer(self, key: Key, has_endpoint: bool) -> [u8; ANSWER_BYTES] {
        let said = u64::from(has_endpoint);
        let code = key.prove(ANSWER, &[self.endpoint, self.number, said]);
        let mut bytes = [0; ANSWER_BYTES];
        bytes[..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..16].copy_from_slice(&said.to_le_bytes());
        bytes[16..].copy_from_slice(&code.to_le_bytes());
        bytes
    }

    /// Whether the process at a place says that it has the endpoint; `None` when it was not that process that
    /// answered, or not this question.
    pub fn understand(self, bytes: &[u8; ANSWER_BYTES], place: &Place) -> Option<bool> {
        let has_endpoint = word(bytes, 8) == 1;
        (self.answer(place.key, has_endpoint) == *bytes).then_some(has_endpoint)
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let (word, _) = bytes[at..].split_first_chunk().expect("eight more bytes");
    u64::from_le_bytes(*word)
}

#[cfg(test)]
mod tests {
    use super::super::place::Process;
    use super::*;

    const KEY: Key = Key(0x1122_3344_5566_7788);
    const ASKED: Question = Question { endpoint: 5, number: 99 };

    fn place() -> Place {
        let address = ([127, 0, 0, 1], 7).into();
        Place { address, endpoint: 5, key: KEY, process: Process { number: 0, started: 0 } }
    }

    #[test]
    fn a_question_is_understood_by_who_has_the_key_and_as_it_was_asked() {
        let bytes = ASKED.to_bytes(KEY);
        assert_eq!(Question::read(&bytes, KEY), Some(ASKED));
        assert_eq!(Question::read(&bytes, Key(1)), None);
        for place in 0..QUESTION_BYTES {
            let mut altered = bytes;
            altered[place] ^= 1;
            assert_eq!(Question::read(&altered, KEY), None, "byte {place}");
        }
    }

    #[test]
    fn an_answer_counts_for_its_question_and_as_it_was_given() {
        const { assert!(ANSWER_BYTES <= QUESTION_BYTES, "strangers must gain nothing by asking") };
        for has_endpoint in [true, false] {
            let bytes = ASKED.answer(KEY, has_endpoint);
            assert_eq!(ASKED.understand(&bytes, &place()), Some(has_endpoint));
            let other = Question { number: 98, ..ASKED };
            assert_eq!(other.understand(&bytes, &place()), None, "an old answer");
            assert_eq!(ASKED.understand(&ASKED.answer(Key(1), has_endpoint), &place()), None);
            for place_of_byte in 0..ANSWER_BYTES {
                let mut altered = bytes;
                altered[place_of_byte] ^= 1;
                assert_eq!(ASKED.understand(&altered, &place()), None, "byte {place_of_byte}");
            }
        }
    }
}
