//! Blocks between the nodes of a hub. A borrowed block is a copy, so that nothing depends on what its lender
//! does.

use core::ptr::NonNull;
use std::sync::{Arc, Mutex};

use farcall_driver::{Block, BlockDescriptor, BlockHome, LaneFault, Loan};

/// Bytes of block memory that a hostile node seems to have.
pub const HOSTILE_BLOCK_BYTES: u64 = 1 << 16;

/// What is lent over one lane.
#[derive(Default)]
pub struct Blocks(Vec<Loan>);

impl Blocks {
    pub fn add(&mut self, loan: Loan) {
        self.0.push(loan);
    }

    pub fn take_back(&mut self, block: BlockDescriptor) -> Result<(), LaneFault> {
        let place = self.place_of(block)?;
        self.0.swap_remove(place);
        Ok(())
    }

    pub fn bytes_of(&self, block: BlockDescriptor) -> Result<Box<[u8]>, LaneFault> {
        Ok(Box::from(&self.0[self.place_of(block)?][..]))
    }

    fn place_of(&self, block: BlockDescriptor) -> Result<usize, LaneFault> {
        let place = self.0.iter().position(|loan| loan.descriptor() == block);
        place.ok_or(LaneFault::Corrupt { what: "a block that is not lent" })
    }
}

/// The bytes of a block in a hostile node's memory.
pub fn hostile_bytes(block: BlockDescriptor) -> Result<Box<[u8]>, LaneFault> {
    let end = block.offset.checked_add(block.length).filter(|end| *end <= HOSTILE_BLOCK_BYTES);
    end.ok_or(LaneFault::Corrupt { what: "a block outside the peer's memory" })?;
    Ok(vec![0xbd; block.length as usize].into())
}

/// Blocks that were dropped and whose return is due.
#[derive(Clone, Default)]
pub struct DueReturns(Arc<Mutex<Vec<BlockDescriptor>>>);

impl DueReturns {
    pub fn next(&self) -> Option<BlockDescriptor> {
        self.0.lock().expect("a test ends with its first panic").pop()
    }
}

struct Copy {
    bytes: Box<[u8]>,
    due: DueReturns,
}

impl BlockHome for Copy {
    fn give_back(&self, descriptor: BlockDescriptor) {
        self.due.0.lock().expect("a test ends with its first panic").push(descriptor);
    }
}

/// A block with these bytes.
pub fn copied_block(bytes: Box<[u8]>, descriptor: BlockDescriptor, due: DueReturns) -> Block {
    assert_eq!(bytes.len() as u64, descriptor.length);
    let home = Arc::new(Copy { bytes, due });
    let start = NonNull::from(&home.bytes[..]).cast();
    // SAFETY: the bytes are the home's own, as many as the descriptor says (checked), and stay where they are
    // and as they are while it lives.
    #[expect(unsafe_code, reason = "a block is made of raw memory")]
    unsafe {
        Block::from_raw(start, descriptor, home)
    }
}
