//! The library, found at run time, and the parts of its binary interface that are used.
//!
//! Debian and Fedora build it as `libIPSec_MB.so.1` (1.x) and `.so.2` (2.x). Most of its functions
//! are pointers in a structure, at offsets that have been the same since 1.3, the first version
//! that hashes bursts: the library's header only appends to them. [`Version`] has the differences.
//! A version that was not compared is not used. The test `interface_matches_the_header` compares
//! with an installed header.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

/// Length of an AES block in bytes.
pub const BLOCK: usize = 16;

/// Room for an expanded key of GCM in bytes: those of the versions take 1008 to 1264.
pub const GCM_KEY: usize = 1280;

/// Room for the state of one GCM operation in bytes, of which the library uses 88.
pub const GCM_STATE: usize = 128;

/// Values of the library's enumerations.
pub mod value {
    /// `IMB_AUTH_HMAC_SHA_1`.
    pub const HMAC_SHA1: u32 = 1;
    /// `IMB_AUTH_HMAC_SHA_256`.
    pub const HMAC_SHA256: u32 = 3;
    /// `IMB_CIPHER_CBC`.
    pub const CBC: u32 = 1;
    /// `IMB_DIR_ENCRYPT`.
    pub const ENCRYPT: u32 = 1;
    /// `IMB_DIR_DECRYPT`.
    pub const DECRYPT: u32 = 2;
    /// `IMB_STATUS_COMPLETED`.
    pub const COMPLETED: u32 = 3;
    /// `IMB_FEATURE_AESNI`, a bit.
    pub const AESNI: u64 = 2;
}

/// The beginning of an `IMB_JOB`, which is followed by [`Version::job_bytes`] less its own size.
#[repr(C)]
pub struct Job {
    pub encrypt_key: *const u32,
    pub decrypt_key: *const u32,
    pub key_bytes: u64,
    pub source: *const u8,
    pub destination: *mut u8,
    pub cipher_start: u64,
    pub cipher_bytes: u64,
    pub hash_start: u64,
    pub hash_bytes: u64,
    pub iv: *const u8,
    pub iv_bytes: u64,
    pub tag: *mut u8,
    pub tag_bytes: u64,
    pub inner: *const u8,
    pub outer: *const u8,
    pub _unused: u64,
    pub status: u32,
}

/// The beginning of an `IMB_MGR`.
#[repr(C)]
pub struct Head {
    pub flags: u64,
    pub features: u64,
    pub _reserved: [u64; 5],
    pub _architecture: u32,
    pub error: c_int,
}

type ExpandCbc = unsafe extern "C" fn(*const u8, *mut u32, *mut u32);
type HashBlock = unsafe extern "C" fn(*const u8, *mut u8);
type ExpandGcm = unsafe extern "C" fn(*const u8, *mut u8);
pub type Gcm = unsafe extern "C" fn(
    *const u8,
    *mut u8,
    *mut u8,
    *const u8,
    u64,
    *const u8,
    *const u8,
    u64,
    *mut u8,
    u64,
);
type CipherBurst = unsafe extern "C" fn(*mut Head, *mut Job, u32, u32, u32, u32) -> u32;
type HashBurst = unsafe extern "C" fn(*mut Head, *mut Job, u32, u32) -> u32;

/// Functions of a manager that has been set up, each for AES-128 and AES-256 where there are two.
#[derive(Debug, Clone, Copy)]
pub struct Functions {
    pub expand_cbc: [ExpandCbc; 2],
    pub sha1_block: HashBlock,
    pub sha256_block: HashBlock,
    pub gcm_encrypt: [Gcm; 2],
    pub gcm_decrypt: [Gcm; 2],
    pub expand_gcm: [ExpandGcm; 2],
    pub cipher_burst: CipherBurst,
    pub hash_burst: HashBurst,
}

/// Offsets of the functions in an `IMB_MGR`, in bytes, in the order of [`Functions`].
const PLACES: [usize; 12] = [112, 128, 160, 176, 256, 272, 280, 296, 448, 464, 992, 1008];

impl Functions {
    /// Reads the functions. `None` if one is missing.
    ///
    /// # Safety
    /// `manager` is an `IMB_MGR` of a version that [`Version::of`] knows, and has been set up.
    #[allow(unsafe_code)]
    pub unsafe fn read(manager: *const Head) -> Option<Self> {
        let mut found = [std::ptr::null::<c_void>(); PLACES.len()];
        for (found, place) in found.iter_mut().zip(PLACES) {
            // SAFETY: the structure is longer than the last offset, which is a pointer's.
            *found = unsafe { manager.byte_add(place).cast::<*const c_void>().read() };
            if found.is_null() {
                return None;
            }
        }
        let [k128, k256, sha1, sha256, e128, e256, d128, d256, p128, p256, cipher, hash] = found;
        // SAFETY: none is null, and the header gives these types to the pointers at these places.
        unsafe {
            use std::mem::transmute;
            Some(Self {
                expand_cbc: [
                    transmute::<*const c_void, ExpandCbc>(k128),
                    transmute::<*const c_void, ExpandCbc>(k256),
                ],
                sha1_block: transmute::<*const c_void, HashBlock>(sha1),
                sha256_block: transmute::<*const c_void, HashBlock>(sha256),
                gcm_encrypt: [
                    transmute::<*const c_void, Gcm>(e128),
                    transmute::<*const c_void, Gcm>(e256),
                ],
                gcm_decrypt: [
                    transmute::<*const c_void, Gcm>(d128),
                    transmute::<*const c_void, Gcm>(d256),
                ],
                expand_gcm: [
                    transmute::<*const c_void, ExpandGcm>(p128),
                    transmute::<*const c_void, ExpandGcm>(p256),
                ],
                cipher_burst: transmute::<*const c_void, CipherBurst>(cipher),
                hash_burst: transmute::<*const c_void, HashBurst>(hash),
            })
        }
    }
}

/// Differences between versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Size of an `IMB_JOB`.
    pub job_bytes: usize,
    /// `IMB_FEATURE_SELF_TEST`, a bit; the next bit is set if the test has passed.
    pub self_test: u64,
}

impl Version {
    /// Returns the version with the number that the library reports (0x10300 for 1.3.0). `None` for
    /// a version that was not compared.
    pub fn of(number: u32) -> Option<Self> {
        match number >> 8 {
            0x103 => Some(Self { job_bytes: 200, self_test: 1 << 20 }),
            0x104 | 0x105 => Some(Self { job_bytes: 240, self_test: 1 << 20 }),
            0x200 => Some(Self { job_bytes: 216, self_test: 1 << 19 }),
            _ => None,
        }
    }

    /// Returns true if the processor has AES instructions and the library has passed its own test.
    pub fn is_usable(self, features: u64) -> bool {
        let passed = self.self_test << 1;
        features & value::AESNI != 0 && (features & self.self_test == 0 || features & passed != 0)
    }
}

/// The library in this process. It is never unloaded.
pub struct Library {
    pub version: Version,
    /// Name and version, as the library reports them.
    pub name: String,
    pub allocate: unsafe extern "C" fn(u64) -> *mut Head,
    pub free: unsafe extern "C" fn(*mut Head),
    pub set_up: unsafe extern "C" fn(*mut Head, *mut c_void),
    pub manager_bytes: unsafe extern "C" fn() -> usize,
    pub clear: unsafe extern "C" fn(*mut c_void, usize),
}

impl Library {
    /// Returns the library of this machine, which is searched for once. `None` if there is no
    /// usable one.
    pub fn get() -> Option<&'static Self> {
        static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
        LIBRARY
            .get_or_init(|| {
                ["libIPSec_MB.so.1", "libIPSec_MB.so.2"].iter().find_map(|name| Self::load(name))
            })
            .as_ref()
    }

    #[cfg(target_arch = "x86_64")]
    fn load(name: &str) -> Option<Self> {
        // SAFETY: a library of this name is Intel's, whose initialisation has no effect on the program.
        #[allow(unsafe_code)]
        let library = unsafe { libloading::Library::new(name) }.ok()?;
        // Pointers into it stay valid.
        let library: &'static libloading::Library = Box::leak(Box::new(library));
        // SAFETY: the types are those of the library's header in every version.
        #[allow(unsafe_code)]
        unsafe {
            let number = library.get::<unsafe extern "C" fn() -> u32>(b"imb_get_version\0").ok()?;
            let version = Version::of(number())?;
            let name = library
                .get::<unsafe extern "C" fn() -> *const c_char>(b"imb_get_version_str\0")
                .ok()?;
            Some(Self {
                version,
                name: CStr::from_ptr(name()).to_string_lossy().into_owned(),
                allocate: *library.get(b"alloc_mb_mgr\0").ok()?,
                free: *library.get(b"free_mb_mgr\0").ok()?,
                set_up: *library.get(b"init_mb_mgr_auto\0").ok()?,
                manager_bytes: *library.get(b"imb_get_mb_mgr_size\0").ok()?,
                clear: *library.get(b"imb_clear_mem\0").ok()?,
            })
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn load(_: &str) -> Option<Self> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;
    use std::process::Command;

    /// Asks a C compiler for the offsets in an installed header of any version.
    #[test]
    fn interface_matches_the_header() {
        const HEADER: &str =
            "#include <stdio.h>\n#include <stddef.h>\n#include <intel-ipsec-mb.h>\n";
        let manager = [
            "keyexp_128",
            "keyexp_256",
            "sha1_one_block",
            "sha256_one_block",
            "gcm128_enc",
            "gcm256_enc",
            "gcm128_dec",
            "gcm256_dec",
            "gcm128_pre",
            "gcm256_pre",
            "submit_cipher_burst_nocheck",
            "submit_hash_burst_nocheck",
        ];
        let job = [
            ("enc_keys", offset_of!(Job, encrypt_key)),
            ("dec_keys", offset_of!(Job, decrypt_key)),
            ("key_len_in_bytes", offset_of!(Job, key_bytes)),
            ("src", offset_of!(Job, source)),
            ("dst", offset_of!(Job, destination)),
            ("cipher_start_src_offset_in_bytes", offset_of!(Job, cipher_start)),
            ("msg_len_to_cipher_in_bytes", offset_of!(Job, cipher_bytes)),
            ("hash_start_src_offset_in_bytes", offset_of!(Job, hash_start)),
            ("msg_len_to_hash_in_bytes", offset_of!(Job, hash_bytes)),
            ("iv", offset_of!(Job, iv)),
            ("iv_len_in_bytes", offset_of!(Job, iv_bytes)),
            ("auth_tag_output", offset_of!(Job, tag)),
            ("auth_tag_output_len_in_bytes", offset_of!(Job, tag_bytes)),
            ("u.HMAC._hashed_auth_key_xor_ipad", offset_of!(Job, inner)),
            ("u.HMAC._hashed_auth_key_xor_opad", offset_of!(Job, outer)),
            ("status", offset_of!(Job, status)),
        ];
        let of = |name: &str, field: &str| format!("offsetof({name}, {field})");
        let (mut asked, mut expected) = (Vec::new(), Vec::new());
        for (field, place) in manager.iter().zip(PLACES) {
            asked.push(of("IMB_MGR", field));
            expected.push(place as u64);
        }
        for (field, place) in job {
            asked.push(of("IMB_JOB", field));
            expected.push(place as u64);
        }
        for (question, value) in [
            (of("IMB_MGR", "features"), offset_of!(Head, features) as u64),
            (of("IMB_MGR", "imb_errno"), offset_of!(Head, error) as u64),
            ("IMB_AUTH_HMAC_SHA_1".into(), value::HMAC_SHA1.into()),
            ("IMB_AUTH_HMAC_SHA_256".into(), value::HMAC_SHA256.into()),
            ("IMB_CIPHER_CBC".into(), value::CBC.into()),
            ("IMB_DIR_ENCRYPT".into(), value::ENCRYPT.into()),
            ("IMB_DIR_DECRYPT".into(), value::DECRYPT.into()),
            ("IMB_STATUS_COMPLETED".into(), value::COMPLETED.into()),
            ("IMB_FEATURE_AESNI".into(), value::AESNI),
        ] {
            asked.push(question);
            expected.push(value);
        }
        let last = [
            "IMB_VERSION_NUM",
            "sizeof(IMB_JOB)",
            "IMB_FEATURE_SELF_TEST",
            "IMB_FEATURE_SELF_TEST_PASS",
            "sizeof(struct gcm_key_data)",
            "sizeof(struct gcm_context_data)",
        ];
        asked.extend(last.map(String::from));
        let printed: String = (asked.iter())
            .map(|question| format!("printf(\"%llu\\n\", (unsigned long long)({question}));\n"))
            .collect();
        let folder = tempfile::tempdir().unwrap();
        let (source, program) =
            (folder.path().join("interface.c"), folder.path().join("interface"));
        std::fs::write(&source, format!("{HEADER}int main(void) {{ {printed} }}")).unwrap();
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let compiled = Command::new(compiler).arg("-o").arg(&program).arg(&source).output();
        if !compiled.is_ok_and(|compiled| compiled.status.success()) {
            return wattline_needs::tool("a C compiler and libipsec-mb's header");
        }
        let answers = String::from_utf8(Command::new(&program).output().unwrap().stdout).unwrap();
        let answers: Vec<u64> = answers.lines().map(|line| line.parse().unwrap()).collect();
        let (of_fields, of_version) = answers.split_at(expected.len());
        for ((question, answer), value) in asked.iter().zip(of_fields).zip(&expected) {
            assert_eq!(answer, value, "{question}");
        }
        let &[number, job_bytes, self_test, passed, gcm_key, gcm_state] = of_version else {
            panic!("{of_version:?}")
        };
        let version = Version::of(number as u32).expect("a version that was compared");
        assert_eq!(version, Version { job_bytes: job_bytes as usize, self_test });
        assert_eq!(passed, self_test << 1);
        assert!(gcm_key as usize <= GCM_KEY && gcm_state as usize <= GCM_STATE);
    }

    #[test]
    fn versions_that_were_not_compared_are_not_used() {
        for number in [0, 0x10200, 0x10202, 0x10600, 0x20100, 0x30000, u32::MAX] {
            assert_eq!(Version::of(number), None, "{number:#x}");
        }
        assert!(Version::of(0x10300).is_some() && Version::of(0x20001).is_some());
    }

    #[test]
    fn a_library_that_fails_its_test_is_not_used() {
        let version = Version::of(0x10300).unwrap();
        let (tested, passed) = (version.self_test, version.self_test << 1);
        assert!(
            version.is_usable(value::AESNI) && version.is_usable(value::AESNI | tested | passed)
        );
        for features in [0, tested | passed, value::AESNI | tested] {
            assert!(!version.is_usable(features), "{features:#x}");
        }
    }
}
