//! What is known of this machine's processor, where no better default can be had by asking the system.

/// Whether a core takes much longer to fetch lines that another core wrote than lines of its own cache, so that it pays to have
/// them fetched early. Taken from measurements: on Xeons of 2023 round trips of 100 KB gain a third by it, on an EPYC of 2024,
/// whose cores fetch as fast as they copy, they lose as much.
pub fn cores_fetch_slowly() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let vendor = raw_cpuid::CpuId::new().get_vendor_info();
        vendor.is_some_and(|vendor| vendor.as_str() == "GenuineIntel")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}
