//! Large payloads are lent, read in place and given back.

use super::records::peek;
use super::{connect, next_down, pair};
use crate::conformance::{made, until};
use crate::{
    Block, BlockDescriptor, LaneDriver, LaneFault, LaneId, LaneReceiver, LaneSender, Loan, LoanError,
    RecordKind,
};

/// No driver lends so many blocks of its largest size at a time.
const LOANS_MAX: usize = 1 << 16;

/// A loan that holds `byte` everywhere.
fn filled(driver: &mut impl LaneDriver, bytes: usize, byte: u8) -> Loan {
    let mut loan = driver.loan(bytes).expect("memory to lend");
    assert_eq!(loan.len(), bytes);
    loan.fill(byte);
    loan
}

/// Lends one of the driver's own loans.
fn lent(driver: &mut impl LaneDriver, lane: LaneId, loan: Loan) -> BlockDescriptor {
    driver.lend(lane, loan).expect("a loan of its own")
}

/// The block that the peer lent, when it is here.
fn borrowed(driver: &mut impl LaneDriver, lane: LaneId, descriptor: BlockDescriptor) -> Block {
    until("a block that was lent arrives", || driver.borrow(lane, descriptor).expect("it was lent"))
}

/// The next block that was dropped, which its lender must be told of.
fn due(driver: &mut impl LaneDriver, lane: LaneId) -> BlockDescriptor {
    until("a dropped block becomes due", || driver.due_return(lane))
}

/// The whole life of a block, both ways, at several lengths.
pub fn a_loan_is_read_in_place_and_comes_back<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) {
    let (mut a, mut b, at_a, at_b) = pair(make);
    let loan_bytes_max = a.limits().loan_bytes_max;
    for (round, bytes) in [1, 100, 4096, 5000, loan_bytes_max, 1].into_iter().enumerate() {
        let loan = filled(&mut a, bytes.min(loan_bytes_max), round as u8);
        let descriptor = lent(&mut a, at_a.lane, loan);
        let block = borrowed(&mut b, at_b.lane, descriptor);
        assert!(block.len() == bytes.min(loan_bytes_max) && block.iter().all(|byte| *byte == round as u8));
        assert_eq!(b.due_return(at_b.lane), None, "a block that is being read is not due");
        drop(block);
        assert_eq!(due(&mut b, at_b.lane), descriptor);
        assert_eq!(b.due_return(at_b.lane), None, "a block is due once");
        assert_eq!(a.take_back(at_a.lane, descriptor), Ok(()));
    }
}

/// Returning a block twice is what no correct peer does.
pub fn a_double_return_is_a_fault<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) {
    let (mut a, _b, at_a, _at_b) = pair(make);
    let loan = filled(&mut a, 100, 1);
    let descriptor = lent(&mut a, at_a.lane, loan);
    assert_eq!(a.take_back(at_a.lane, descriptor), Ok(()));
    assert!(matches!(a.take_back(at_a.lane, descriptor), Err(LaneFault::Corrupt { .. })));
}

/// So is returning what was never lent, was lent to another, or is only being written.
pub fn an_unknown_return_is_a_fault<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) {
    let [mut a, mut b] = made(make);
    let ((first, _keep_first), (second, _keep_second)) = (connect(&mut a, &mut b), connect(&mut a, &mut b));
    let never = BlockDescriptor { offset: 0, length: 1 };
    assert!(matches!(a.take_back(first.lane, never), Err(LaneFault::Corrupt { .. })));
    let loan = filled(&mut a, 100, 1);
    let unsent = loan.descriptor();
    assert!(matches!(a.take_back(first.lane, unsent), Err(LaneFault::Corrupt { .. })));
    let descriptor = lent(&mut a, first.lane, loan);
    assert!(matches!(a.take_back(second.lane, descriptor), Err(LaneFault::Corrupt { .. })));
    assert_eq!(a.take_back(first.lane, descriptor), Ok(()));
}

/// A descriptor that leaves the lender's memory gives no block.
pub fn a_nonsense_block_is_a_fault<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) {
    let (_a, mut b, _at_a, at_b) = pair(make);
    for (offset, length) in [(u64::MAX, 1), (0, u64::MAX), (u64::MAX, u64::MAX), (1 << 60, 1), (1, u64::MAX)]
    {
        let nonsense = BlockDescriptor { offset, length };
        let result = b.borrow(at_b.lane, nonsense);
        assert!(matches!(result, Err(LaneFault::Corrupt { .. })), "{nonsense:?} gave {result:?}");
    }
}

/// Payloads that are copied into loans arrive, whatever they are part of and however long they are, while the
/// peer looks for them.
pub fn payloads_copied_into_loans_arrive<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) {
    let (mut a, mut b, mut at_a, at_b) = pair(make);
    let longest = a.limits().loan_bytes_max.min(200_000);
    for (number, bytes) in [0, 1, 5000, longest / 2, longest].into_iter().enumerate() {
        let payload: Vec<u8> = (0..bytes).map(|at| (at % 251 + number) as u8).collect();
        for kind in [RecordKind::Conversation, RecordKind::Stream] {
            let mut loan = a.loan(bytes).expect("memory");
            at_a.sender.copy_payload(kind, &mut loan, &payload);
            assert!(
                !at_b.receiver.may_have_record(0) || peek(&at_b.receiver, 0).expect("no fault").is_none()
            );
            let descriptor = lent(&mut a, at_a.lane, loan);
            let block = borrowed(&mut b, at_b.lane, descriptor);
            assert!(*block == payload[..], "{bytes} bytes of a {kind:?}");
            drop(block);
            let due = due(&mut b, at_b.lane);
            assert_eq!(a.take_back(at_a.lane, due), Ok(()));
            // For another as long, or not to the end.
            for _ in 0..number * 10 {
                a.prepare(&mut at_a.sender, 0);
            }
        }
    }
    drop(exhaust(&mut a));
    assert!(a.loan(a.limits().loan_bytes_max).is_ok(), "what was made ready is not missing");
}

/// A block stays readable when its lane is closed, its lender is gone and its borrower is gone.
pub fn a_block_outlives_lane_and_driver<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) {
    let (mut a, mut b, at_a, at_b) = pair(make);
    let loan = filled(&mut a, 5000, 42);
    let descriptor = lent(&mut a, at_a.lane, loan);
    let block = borrowed(&mut b, at_b.lane, descriptor);
    let intact = |block: &Block| block.len() == 5000 && block.iter().all(|byte| *byte == 42);
    b.close(at_b.lane);
    next_down(&mut b, at_b.lane);
    assert!(intact(&block), "after the lane was closed");
    drop((a, at_a));
    assert!(intact(&block), "after the lender was dropped");
    drop((b, at_b));
    assert!(intact(&block), "after the borrower was dropped");
}

/// A loan over the limit is refused as such, and so is one when all memory is lent.
pub fn loans_have_limits<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) {
    let [mut driver] = made(make);
    let bytes_max = driver.limits().loan_bytes_max;
    let too_long = LoanError::TooLong { bytes: bytes_max + 1, bytes_max };
    assert_eq!(driver.loan(bytes_max + 1).err(), Some(too_long));
    let loans = exhaust(&mut driver);
    assert!(!loans.is_empty(), "the largest loan is possible");
    drop(loans);
    assert!(driver.loan(bytes_max).is_ok(), "memory that came back can be lent again");
}

/// Takes the largest loans until there are no more.
fn exhaust(driver: &mut impl LaneDriver) -> Vec<Loan> {
    let bytes_max = driver.limits().loan_bytes_max;
    let mut loans = Vec::new();
    let refusal = loop {
        match driver.loan(bytes_max) {
            Ok(loan) => loans.push(loan),
            Err(refusal) => break refusal,
        }
        assert!(loans.len() < LOANS_MAX, "the memory to lend has no bound");
    };
    assert_eq!(refusal, LoanError::Exhausted);
    loans
}

/// Loans that are dropped unsent, from any thread, leave no gap.
pub fn unsent_loans_come_back<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) {
    let [mut driver] = made(make);
    let count = exhaust(&mut driver).len();
    for round in 0..5 {
        let small: Vec<_> = (1..50).map(|number| driver.loan(number * 10).expect("memory to lend")).collect();
        std::thread::spawn(move || drop(small)).join().expect("no panic");
        assert_eq!(exhaust(&mut driver).len(), count, "round {round}");
    }
}

/// What a peer held when its lane closed can be lent again when it has let go of it.
pub fn lent_blocks_come_home_when_the_lane_closes<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) {
    let (mut a, mut b, at_a, at_b) = pair(make);
    let loans = exhaust(&mut a);
    let count = loans.len();
    let lent: Vec<_> = loans.into_iter().map(|loan| lent(&mut a, at_a.lane, loan)).collect();
    let block = borrowed(&mut b, at_b.lane, lent[0]);
    b.close(at_b.lane);
    next_down(&mut b, at_b.lane);
    next_down(&mut a, at_a.lane);
    drop((block, at_b, b));
    until("the blocks come home", || {
        while a.poll_event().is_some() {}
        let loan_bytes_max = a.limits().loan_bytes_max;
        let loans: Vec<_> = (0..count).map_while(|_| a.loan(loan_bytes_max).ok()).collect();
        (loans.len() == count).then_some(())
    });
}

/// A driver tells its own loans from those of others, which it gives back.
pub fn loans_know_their_driver<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) {
    let (mut a, mut b, at_a, _at_b) = pair(make);
    let refused = a.lend(at_a.lane, filled(&mut b, 100, 7)).expect_err("it is another driver's");
    assert!(refused.iter().all(|byte| *byte == 7));
    drop(refused);
    let own = filled(&mut a, 100, 7);
    assert!(a.lend(at_a.lane, own).is_ok());
}
