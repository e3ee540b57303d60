//! Random workloads over random networks.
