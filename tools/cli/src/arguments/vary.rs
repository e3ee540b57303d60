//! The grammar of `--vary`.

use clap::Args;
use farcall_lab::explain::vary::{BLOCKS_MAX, Guard};

use super::whole_number;

/// Blocks unless the command line says otherwise: seven degrees of freedom make intervals that are narrow
/// enough to use.
const BLOCKS: u64 = 8;

/// What changes from run to run.
#[derive(Clone, Debug, Args)]
pub struct Varying {
    /// Which of several parameters matters: NAME=A/B, NAME=B against what it is now, the NAME of a switch, or
    /// that of a number or size against the least that it can be, separated by commas; also fields of a
    /// simulated fabric, as in fabric.link.gbps=100/200
    #[arg(long, value_delimiter = ',', value_name = "FACTORS")]
    pub vary: Vec<String>,
    /// With --vary: a figure that must not get worse by more than a part, such as echo1M:p50=1%; can be
    /// repeated
    #[arg(long, requires = "vary", value_name = "ROW:FIGURE=PERCENT%")]
    pub guard: Vec<Guard>,
    /// With --vary: the figure that the table shows [default: the first that the test has, such as p50]
    #[arg(long, requires = "vary", value_name = "FIGURE")]
    pub figure: Option<String>,
    /// With --vary: blocks, in each of which every combination runs once, in random order; they share
    /// --count, --seconds or --ops, of msgrate --messages [default: 8]
    #[arg(long, requires = "vary", value_parser = whole_number::<{ BLOCKS_MAX }>)]
    pub blocks: Option<u64>,
}

impl Varying {
    /// How many blocks are to be kept.
    pub fn blocks(&self) -> u64 {
        self.blocks.unwrap_or(BLOCKS)
    }
}
