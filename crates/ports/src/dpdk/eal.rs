//! DPDK's environment.

use super::arguments::arguments;
use super::error::DpdkError;
use super::ffi;
use super::name::DeviceText;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};

static STARTED: AtomicBool = AtomicBool::new(false);

/// The running environment of this process. It runs until the process ends.
#[derive(Debug)]
pub struct Eal(());

impl Eal {
    /// Starts it with these arguments of its command line and these devices. Of cards, only those that
    /// are named are touched.
    ///
    /// # Errors
    /// When it was started before, or does not start.
    pub fn start(given: &[String], devices: &[DeviceText]) -> Result<Self, DpdkError> {
        if STARTED.swap(true, Ordering::AcqRel) {
            return Err(DpdkError::Started);
        }
        let affinity = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        let cpu = (0..CpuSet::MAX_CPU).find(|cpu| affinity.is_set(*cpu)).unwrap_or(0);
        let all = arguments(given, devices, cpu);
        let as_c = |text: &String| {
            let text = CString::new(text.as_str());
            text.map(CString::into_raw).map_err(|_| DpdkError::Argument(given.join(" ")))
        };
        // Kept for ever: the environment keeps pointers to them.
        let texts: Vec<*mut c_char> = all.iter().map(as_c).collect::<Result<_, _>>()?;
        let count = texts.len() as c_int;
        let texts = Vec::leak(texts.into_iter().chain([std::ptr::null_mut()]).collect());
        // SAFETY: `texts` holds `count` C strings and a null behind them, writable and never freed; no
        // other call of the environment is under way, as it has not been started.
        #[allow(unsafe_code)]
        let result = unsafe { ffi::wl_start(count, texts.as_mut_ptr()) };
        // It has pinned this thread to the CPU of its main one, and threads to come would inherit that.
        let _ = sched_setaffinity(None, &affinity);
        if result < 0 {
            let source = std::io::Error::from_raw_os_error(-result);
            return Err(DpdkError::Start { arguments: all[1..].join(" "), source });
        }
        remove_directory();
        Ok(Self(()))
    }
}

/// Without files to share ([`arguments`]) the directory for them is empty; one that is not stays.
fn remove_directory() {
    // SAFETY: the environment runs; its answer is null or a C string that it keeps.
    #[allow(unsafe_code)]
    let path = unsafe {
        let path = ffi::wl_directory();
        if path.is_null() {
            return;
        }
        CStr::from_ptr(path)
    };
    let _ = std::fs::remove_dir(OsStr::from_bytes(path.to_bytes()));
}
