//! The library's state for one thread.

use super::batch::{Batch, MOST, TAG};
use super::key::{Key, Mode};
use super::library::{BLOCK, Functions, GCM_STATE, Gcm, Head, Job, Library, value};
use std::ptr::NonNull;

/// The library did not complete all jobs, or the key was of another mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobsFailed;

/// The library's state: lanes that fill up within a call and are empty between calls.
pub struct Manager {
    library: &'static Library,
    head: NonNull<Head>,
    functions: Functions,
    jobs: Jobs,
}

#[allow(unsafe_code)]
// SAFETY: it belongs to no thread, and every use of it needs `&mut`.
unsafe impl Send for Manager {}

impl std::fmt::Debug for Manager {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Manager").finish_non_exhaustive()
    }
}

/// Returns the name and version of the library, if this machine has it and its processor suits it.
pub fn name() -> Option<String> {
    Manager::new().map(|manager| format!("ipsec-mb {}", manager.library.name))
}

impl Manager {
    /// Sets up the widest instructions of this processor, which takes about a millisecond. `None`
    /// if there is no such library, the processor has no AES instructions, the library fails its
    /// own test, or memory is short.
    pub fn new() -> Option<Self> {
        let library = Library::get()?;
        // SAFETY: the function has no requirements.
        #[allow(unsafe_code)]
        let head = NonNull::new(unsafe { (library.allocate)(0) })?;
        // SAFETY: the structure was just made by the library, of a version whose layout is known. Its
        // functions are read after it has been set up.
        #[allow(unsafe_code)]
        let functions = unsafe {
            (library.set_up)(head.as_ptr(), std::ptr::null_mut());
            let Head { features, error, .. } = head.as_ref();
            let is_usable = *error == 0 && library.version.is_usable(*features);
            is_usable.then(|| Functions::read(head.as_ptr())).flatten()
        };
        let Some(functions) = functions else {
            // SAFETY: it comes from the library, and nothing refers to it.
            #[allow(unsafe_code)]
            unsafe {
                (library.free)(head.as_ptr());
            }
            return None;
        };
        Some(Self { library, head, functions, jobs: Jobs::new(library.version.job_bytes) })
    }

    /// Expands a key with the key of its HMAC, which is empty for GCM. `None` if their lengths do
    /// not fit the mode.
    pub fn key(&mut self, mode: Mode, cipher: &[u8], integrity: &[u8]) -> Option<Key> {
        // SAFETY: the manager lives.
        #[allow(unsafe_code)]
        unsafe {
            Key::expand(&self.functions, mode, cipher, integrity)
        }
    }

    /// Encrypts `body` with GCM and authenticates it, and `more` before it, by a `tag`.
    ///
    /// # Errors
    /// When the key is not one for GCM.
    #[inline]
    pub fn gcm_seal(
        &mut self,
        key: &Key,
        nonce: &[u8; 12],
        more: &[u8],
        body: &mut [u8],
        tag: &mut [u8; TAG],
    ) -> Result<(), JobsFailed> {
        self.gcm(key, self.functions.gcm_encrypt, nonce, more, body, tag)
    }

    /// Decrypts `body` with GCM, authentic or not. Returns the tag that an authentic one has: the
    /// caller compares it, and discards the body if it differs.
    ///
    /// # Errors
    /// When the key is not one for GCM.
    #[inline]
    pub fn gcm_open(
        &mut self,
        key: &Key,
        nonce: &[u8; 12],
        more: &[u8],
        body: &mut [u8],
    ) -> Result<[u8; TAG], JobsFailed> {
        let mut tag = [0; TAG];
        self.gcm(key, self.functions.gcm_decrypt, nonce, more, body, &mut tag)?;
        Ok(tag)
    }

    #[inline]
    fn gcm(
        &mut self,
        key: &Key,
        functions: [Gcm; 2],
        nonce: &[u8; 12],
        more: &[u8],
        body: &mut [u8],
        tag: &mut [u8; TAG],
    ) -> Result<(), JobsFailed> {
        let Mode::Gcm(cipher) = key.mode() else { return Err(JobsFailed) };
        let mut state = std::mem::MaybeUninit::<[u8; GCM_STATE]>::uninit();
        // SAFETY: the key was expanded for this function and is not written to. All slices have the
        // given lengths, nonce and tag the lengths that the library requires, and the state is
        // large enough.
        #[allow(unsafe_code)]
        unsafe {
            functions[cipher as usize](
                key.expanded().gcm.as_ptr(),
                state.as_mut_ptr().cast(),
                body.as_mut_ptr(),
                body.as_ptr(),
                body.len() as u64,
                nonce.as_ptr(),
                more.as_ptr(),
                more.len() as u64,
                tag.as_mut_ptr(),
                TAG as u64,
            );
        }
        Ok(())
    }

    /// Encrypts all packets of a batch with CBC and an IV of zero, and then computes their tags.
    ///
    /// # Errors
    /// When a packet has nothing to encrypt, or the library did not complete all packets.
    pub fn cbc_seal(&mut self, batch: &mut Batch<'_>) -> Result<(), JobsFailed> {
        static ZERO: Aligned = Aligned([0; BLOCK]);
        if !batch.is_to_be_encrypted() {
            return Err(JobsFailed);
        }
        let mode = batch.mode();
        let count = batch.len();
        for (at, job) in batch.jobs().iter().enumerate() {
            let Some(key) = job.key else { return Err(JobsFailed) };
            let (start, bytes) = job.cipher;
            // SAFETY: the batch checked that the range lies within the packet.
            #[allow(unsafe_code)]
            let body = unsafe { job.start.add(start) };
            self.jobs.cipher(at, key, body, bytes, &ZERO.0);
        }
        self.burst(count, mode, value::ENCRYPT)?;
        self.hash(batch)
    }

    /// Computes the tags of all packets of a batch.
    ///
    /// # Errors
    /// When the library did not complete all packets.
    pub fn hash(&mut self, batch: &mut Batch<'_>) -> Result<(), JobsFailed> {
        let Mode::Cbc(_, integrity) = batch.mode() else { return Err(JobsFailed) };
        let (number, tag_bytes) = integrity.number_and_tag();
        let count = batch.len();
        if count == 0 {
            return Ok(());
        }
        for (at, job) in batch.jobs().iter_mut().enumerate() {
            let Some(key) = job.key else { return Err(JobsFailed) };
            let raw = self.jobs.get(at);
            raw.status = 0;
            raw.source = job.start.as_ptr();
            raw.hash_start = 0;
            raw.hash_bytes = job.hashed as u64;
            raw.tag = job.tag.as_mut_ptr();
            raw.tag_bytes = tag_bytes;
            raw.inner = key.expanded().inner.as_ptr();
            raw.outer = key.expanded().outer.as_ptr();
        }
        // SAFETY: the manager is valid and this thread's. There are 1 to `MOST` jobs of the library's
        // size; their ranges were checked against packets and keys that the batch borrows, each packet
        // once, and the keys are of one mode.
        #[allow(unsafe_code)]
        let done = unsafe {
            (self.functions.hash_burst)(self.head.as_ptr(), self.jobs.first(), count as u32, number)
        };
        self.all_done(done, count)
    }

    /// Decrypts `body` with CBC.
    ///
    /// # Errors
    /// When its length is no whole number of blocks, the key is not one for CBC, or the library did
    /// not complete it.
    #[inline]
    pub fn cbc_open(
        &mut self,
        key: &Key,
        iv: &[u8; 16],
        body: &mut [u8],
    ) -> Result<(), JobsFailed> {
        let Mode::Cbc(..) = key.mode() else { return Err(JobsFailed) };
        if body.is_empty() || !body.len().is_multiple_of(BLOCK) {
            return Err(JobsFailed);
        }
        let bytes = body.len();
        self.jobs.cipher(0, key, NonNull::from(body).cast(), bytes, iv);
        self.burst(1, key.mode(), value::DECRYPT)
    }

    /// Encrypts or decrypts the first `count` jobs, whose keys are of one mode.
    fn burst(&mut self, count: usize, mode: Mode, direction: u32) -> Result<(), JobsFailed> {
        if count == 0 {
            return Ok(());
        }
        // SAFETY: as in `hash`; `Jobs::cipher` wrote each job.
        #[allow(unsafe_code)]
        let done = unsafe {
            (self.functions.cipher_burst)(
                self.head.as_ptr(),
                self.jobs.first(),
                count as u32,
                value::CBC,
                direction,
                mode.cipher().bytes() as u32,
            )
        };
        self.all_done(done, count)
    }

    fn all_done(&mut self, done: u32, count: usize) -> Result<(), JobsFailed> {
        let are_done = (0..count).all(|at| self.jobs.get(at).status == value::COMPLETED);
        if done as usize == count && are_done { Ok(()) } else { Err(JobsFailed) }
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        // SAFETY: it comes from the library, and nothing else refers to it. Lanes hold blocks of packets
        // and states of hashes, so they are cleared.
        #[allow(unsafe_code)]
        unsafe {
            (self.library.clear)(self.head.as_ptr().cast(), (self.library.manager_bytes)());
            (self.library.free)(self.head.as_ptr());
        }
    }
}

#[repr(align(16))]
struct Aligned([u8; BLOCK]);

/// Room for `MOST` jobs of the library's size, side by side.
struct Jobs {
    words: Vec<u64>,
    job_words: usize,
}

impl Jobs {
    fn new(job_bytes: usize) -> Self {
        let job_words = job_bytes / 8;
        assert!(job_bytes >= size_of::<Job>() && job_bytes.is_multiple_of(8));
        Self { words: vec![0; MOST * job_words], job_words }
    }

    #[inline]
    fn first(&mut self) -> *mut Job {
        self.words.as_mut_ptr().cast()
    }

    /// Returns the beginning of a job.
    #[inline]
    fn get(&mut self, at: usize) -> &mut Job {
        let room = &mut self.words[at * self.job_words..(at + 1) * self.job_words];
        // SAFETY: the room is aligned and long enough for a job, and any bytes are a valid job. It
        // is borrowed as long as the job.
        #[allow(unsafe_code)]
        unsafe {
            &mut *room.as_mut_ptr().cast::<Job>()
        }
    }

    /// Writes a job for CBC, in place.
    #[inline]
    fn cipher(&mut self, at: usize, key: &Key, body: NonNull<u8>, bytes: usize, iv: &[u8; BLOCK]) {
        let expanded = key.expanded();
        let job = self.get(at);
        job.status = 0;
        job.encrypt_key = expanded.encrypt.as_ptr();
        job.decrypt_key = expanded.decrypt.as_ptr();
        job.key_bytes = key.mode().cipher().bytes() as u64;
        job.source = body.as_ptr();
        job.destination = body.as_ptr();
        job.cipher_start = 0;
        job.cipher_bytes = bytes as u64;
        job.iv = iv.as_ptr();
        job.iv_bytes = BLOCK as u64;
    }
}
