//! `headgate`: one binary for the replica, the checks and the demo.

use std::process::ExitCode;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Thousands of streams hold buffers that are mostly empty; in huge pages every one of them would be in memory whole.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    gateway::cli::run()
}
