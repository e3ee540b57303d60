//! Launchers that start several processes and tell them their ranks in a language that is not spoken here.
//!
//! A process of theirs that took itself for alone would be one of several clusters of one rank each, and
//! nothing would say so.

use std::ffi::OsString;

use super::LaunchError;

/// How a launcher tells its processes what they are.
struct Foreign {
    /// The variable with the number of processes that were started together.
    size: &'static str,
    /// The variable with the number of this one.
    rank: &'static str,
    /// Whether `size` is there also in processes that were started alone.
    is_of_allocation: bool,
    /// What makes the launcher speak, as the beginning of a sentence; empty where nothing does.
    better: &'static str,
}

/// MPICH and what shares its interface (Intel MPI, MVAPICH), Open MPI without PMIx, and Slurm without it.
const KNOWN: [Foreign; 4] = [
    Foreign { size: "PMI_SIZE", rank: "PMI_RANK", is_of_allocation: false, better: "" },
    Foreign {
        size: "OMPI_COMM_WORLD_SIZE",
        rank: "OMPI_COMM_WORLD_RANK",
        is_of_allocation: false,
        better: "",
    },
    Foreign {
        size: "SLURM_STEP_NUM_TASKS",
        rank: "SLURM_PROCID",
        is_of_allocation: false,
        better: WITH_SLURM,
    },
    // A batch script and a shell of `salloc` have this one too, and are number 0 or none.
    Foreign { size: "SLURM_NTASKS", rank: "SLURM_PROCID", is_of_allocation: true, better: WITH_SLURM },
];

/// Slurm's `--mpi` has no default that speaks unless its administrator chose one.
const WITH_SLURM: &str = "start it by `srun --mpi=pmix` or `srun --mpi=pmi2`, or ";

/// Fails where such a launcher has started this process and others.
pub(super) fn refuse_foreign_launchers(lookup: impl Fn(&str) -> Option<OsString>) -> Result<(), LaunchError> {
    let number = |variable: &str| lookup(variable)?.to_str()?.trim().parse::<u32>().ok();
    for Foreign { size, rank, is_of_allocation, better } in KNOWN {
        let Some(processes) = number(size).filter(|processes| *processes > 1) else { continue };
        if !is_of_allocation || number(rank).is_some_and(|rank| rank > 0) {
            return Err(LaunchError::NotSpokenTo { size, processes, rank, better });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(variables: &[(&str, &str)]) -> Result<(), LaunchError> {
        refuse_foreign_launchers(|wanted| {
            variables.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.into())
        })
    }

    #[test]
    fn one_of_several_processes_is_not_taken_for_alone() {
        let error = outcome(&[("PMI_SIZE", "4"), ("PMI_RANK", "2")]).expect_err("one of four").to_string();
        assert_eq!(
            error,
            "PMI_SIZE=4: a launcher that speaks neither PMIx nor PMI 1 started this process; set FARCALL_RENDEZVOUS and \
             FARCALL_SIZE=4, and in each process FARCALL_RANK=$PMI_RANK, or unset PMI_SIZE"
        );
        let of_slurm = [("SLURM_STEP_NUM_TASKS", "4"), ("SLURM_PROCID", "0")];
        let said = outcome(&of_slurm).expect_err("one of four").to_string();
        assert!(
            said.contains("; start it by `srun --mpi=pmix` or `srun --mpi=pmi2`, or set FARCALL_"),
            "{said}"
        );
        for variables in [
            [("OMPI_COMM_WORLD_SIZE", "2"), ("OMPI_COMM_WORLD_RANK", "0")],
            of_slurm,
            [("SLURM_NTASKS", "4"), ("SLURM_PROCID", "2")],
        ] {
            assert!(outcome(&variables).is_err(), "{variables:?}");
        }
    }

    #[test]
    fn a_process_that_was_started_alone_is_alone() {
        let cases: [&[(&str, &str)]; 4] = [
            &[],
            &[("PMI_SIZE", "1"), ("PMI_RANK", "0")],
            &[("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0")],
            &[("SLURM_NTASKS", "4")],
        ];
        for variables in cases {
            assert_eq!(outcome(variables), Ok(()), "{variables:?}");
        }
    }
}
