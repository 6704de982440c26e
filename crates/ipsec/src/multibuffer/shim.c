/*
 * Functions over the macros and structures of Intel's multi-buffer library (libipsec-mb). Rust sees
 * them in ffi.rs; what a caller has to hold to stands here.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <intel-ipsec-mb.h>

#if IMB_VERSION_NUM < IMB_VERSION(1, 3, 0)
#error "libipsec-mb 1.3 or later is needed: it is the first that hashes bursts"
#endif

#define MOST 64 /* jobs in a call */
#define AES_BLOCK 16
#define HASH_BLOCK 64

/* A key, expanded. It is not changed any more once wl_key has returned it. */
struct wl_key {
	struct gcm_key_data gcm;
	uint32_t encrypt[60] __attribute__((aligned(16)));
	uint32_t decrypt[60] __attribute__((aligned(16)));
	uint8_t inner[32] __attribute__((aligned(16)));
	uint8_t outer[32] __attribute__((aligned(16)));
	IMB_KEY_SIZE_BYTES bytes;
	IMB_HASH_ALG hash;
};

/* The library's state for one thread at a time. */
struct wl_manager {
	IMB_MGR *library;
	IMB_JOB jobs[MOST];
};

/* One packet; the same as `RawJob` in ffi.rs. */
struct wl_job {
	uint8_t *start;
	const struct wl_key *key;
	uint32_t bytes;
	uint32_t cipher_start;
	uint32_t cipher_bytes;
	uint32_t hash_bytes; /* from start */
	uint8_t tag[16];
};

static int is_usable(uint64_t features)
{
	int is_tested = features & IMB_FEATURE_SELF_TEST;

	return (features & IMB_FEATURE_AESNI) &&
	       (!is_tested || (features & IMB_FEATURE_SELF_TEST_PASS));
}

/*
 * NULL where memory is short, the processor lacks AES instructions, or the library fails its own
 * test.
 */
struct wl_manager *wl_manager(void)
{
	struct wl_manager *manager = calloc(1, sizeof(*manager));

	if (manager == NULL)
		return NULL;
	manager->library = alloc_mb_mgr(0);
	if (manager->library != NULL) {
		init_mb_mgr_auto(manager->library, NULL);
		if (imb_get_errno(manager->library) == 0 && is_usable(manager->library->features))
			return manager;
		free_mb_mgr(manager->library);
	}
	free(manager);
	return NULL;
}

void wl_manager_free(struct wl_manager *manager)
{
	/* Lanes hold blocks of packets and states of hashes. */
	imb_clear_mem(manager->library, imb_get_mb_mgr_size());
	free_mb_mgr(manager->library);
	free(manager);
}

const char *wl_version(void)
{
	return imb_get_version_str();
}

/* Hash states after the key's pads (RFC 2104); a key is no longer than a block. */
static void pads(IMB_MGR *library, struct wl_key *key, const uint8_t *integrity, uint32_t bytes)
{
	uint8_t inner[HASH_BLOCK], outer[HASH_BLOCK];

	memset(inner, 0x36, sizeof(inner));
	memset(outer, 0x5c, sizeof(outer));
	for (uint32_t i = 0; i < bytes; i++) {
		inner[i] ^= integrity[i];
		outer[i] ^= integrity[i];
	}
	if (key->hash == IMB_AUTH_HMAC_SHA_1) {
		IMB_SHA1_ONE_BLOCK(library, inner, key->inner);
		IMB_SHA1_ONE_BLOCK(library, outer, key->outer);
	} else {
		IMB_SHA256_ONE_BLOCK(library, inner, key->inner);
		IMB_SHA256_ONE_BLOCK(library, outer, key->outer);
	}
	imb_clear_mem(inner, sizeof(inner));
	imb_clear_mem(outer, sizeof(outer));
}

/*
 * Expands an AES key of 16 or 32 bytes: for GCM without an integrity key, else for CBC with the
 * integrity key of HMAC-SHA1 (20 bytes) or HMAC-SHA256 (32). NULL where memory is short.
 */
struct wl_key *wl_key(struct wl_manager *manager, const uint8_t *cipher, uint32_t cipher_bytes,
		      const uint8_t *integrity, uint32_t integrity_bytes)
{
	IMB_MGR *library = manager->library;
	/* A multiple of the alignment, as C wants it. */
	struct wl_key *key = aligned_alloc(64, (sizeof(*key) + 63) / 64 * 64);

	if (key == NULL)
		return NULL;
	memset(key, 0, sizeof(*key));
	key->bytes = cipher_bytes == 32 ? IMB_KEY_256_BYTES : IMB_KEY_128_BYTES;
	if (integrity_bytes == 0) {
		if (key->bytes == IMB_KEY_256_BYTES)
			IMB_AES256_GCM_PRE(library, cipher, &key->gcm);
		else
			IMB_AES128_GCM_PRE(library, cipher, &key->gcm);
		return key;
	}
	if (key->bytes == IMB_KEY_256_BYTES)
		IMB_AES_KEYEXP_256(library, cipher, key->encrypt, key->decrypt);
	else
		IMB_AES_KEYEXP_128(library, cipher, key->encrypt, key->decrypt);
	key->hash = integrity_bytes == 32 ? IMB_AUTH_HMAC_SHA_256 : IMB_AUTH_HMAC_SHA_1;
	pads(library, key, integrity, integrity_bytes);
	return key;
}

void wl_key_free(struct wl_key *key)
{
	imb_clear_mem(key, sizeof(*key));
	free(key);
}

/* Encrypts in place with GCM: a nonce of 12 bytes, a tag of 16. */
void wl_gcm_seal(struct wl_manager *manager, const struct wl_key *key, uint8_t *body, uint64_t bytes,
		 const uint8_t *nonce, const uint8_t *more, uint64_t more_bytes, uint8_t *tag)
{
	struct gcm_context_data context;

	if (key->bytes == IMB_KEY_256_BYTES)
		IMB_AES256_GCM_ENC(manager->library, &key->gcm, &context, body, body, bytes, nonce,
				   more, more_bytes, tag, 16);
	else
		IMB_AES128_GCM_ENC(manager->library, &key->gcm, &context, body, body, bytes, nonce,
				   more, more_bytes, tag, 16);
}

/* Decrypts in place, whatever the tag; the caller compares the tag. */
void wl_gcm_open(struct wl_manager *manager, const struct wl_key *key, uint8_t *body, uint64_t bytes,
		 const uint8_t *nonce, const uint8_t *more, uint64_t more_bytes, uint8_t *tag)
{
	struct gcm_context_data context;

	if (key->bytes == IMB_KEY_256_BYTES)
		IMB_AES256_GCM_DEC(manager->library, &key->gcm, &context, body, body, bytes, nonce,
				   more, more_bytes, tag, 16);
	else
		IMB_AES128_GCM_DEC(manager->library, &key->gcm, &context, body, body, bytes, nonce,
				   more, more_bytes, tag, 16);
}

static const uint8_t zero[AES_BLOCK] __attribute__((aligned(16)));

/*
 * Hashes `count` packets (1 to 64) whose keys have the same algorithms. Returns 0 unless every job was
 * done.
 */
int wl_hash(struct wl_manager *manager, struct wl_job *jobs, uint32_t count)
{
	IMB_HASH_ALG algorithm = jobs[0].key->hash;

	for (uint32_t i = 0; i < count; i++) {
		IMB_JOB *job = &manager->jobs[i];
		const struct wl_key *key = jobs[i].key;

		job->status = IMB_STATUS_BEING_PROCESSED;
		job->src = jobs[i].start;
		job->hash_start_src_offset_in_bytes = 0;
		job->msg_len_to_hash_in_bytes = jobs[i].hash_bytes;
		job->auth_tag_output = jobs[i].tag;
		job->auth_tag_output_len_in_bytes = algorithm == IMB_AUTH_HMAC_SHA_1 ? 12 : 16;
		job->u.HMAC._hashed_auth_key_xor_ipad = key->inner;
		job->u.HMAC._hashed_auth_key_xor_opad = key->outer;
	}
	if (IMB_SUBMIT_HASH_BURST_NOCHECK(manager->library, manager->jobs, count, algorithm) != count)
		return 0;
	for (uint32_t i = 0; i < count; i++)
		if (manager->jobs[i].status != IMB_STATUS_COMPLETED)
			return 0;
	return 1;
}

/*
 * Encrypts `count` packets (1 to 64) with CBC and an IV of zero, then hashes them. Their keys have
 * the same algorithms; each range lies in memory that no other job of the call has. Returns 0 unless
 * every job was done.
 */
int wl_cbc_seal(struct wl_manager *manager, struct wl_job *jobs, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		IMB_JOB *job = &manager->jobs[i];
		uint8_t *body = jobs[i].start + jobs[i].cipher_start;

		job->status = IMB_STATUS_BEING_PROCESSED;
		job->enc_keys = jobs[i].key->encrypt;
		job->dec_keys = jobs[i].key->decrypt;
		job->key_len_in_bytes = jobs[i].key->bytes;
		job->src = body;
		job->dst = body;
		job->cipher_start_src_offset_in_bytes = 0;
		job->msg_len_to_cipher_in_bytes = jobs[i].cipher_bytes;
		job->iv = zero;
		job->iv_len_in_bytes = AES_BLOCK;
	}
	if (IMB_SUBMIT_CIPHER_BURST_NOCHECK(manager->library, manager->jobs, count, IMB_CIPHER_CBC,
					    IMB_DIR_ENCRYPT, jobs[0].key->bytes) != count)
		return 0;
	for (uint32_t i = 0; i < count; i++)
		if (manager->jobs[i].status != IMB_STATUS_COMPLETED)
			return 0;
	return wl_hash(manager, jobs, count);
}

/* Decrypts one body in place, whose length is a multiple of 16. Returns 0 unless it was done. */
int wl_cbc_open(struct wl_manager *manager, const struct wl_key *key, const uint8_t *iv,
		uint8_t *body, uint64_t bytes)
{
	IMB_JOB *job = &manager->jobs[0];

	job->status = IMB_STATUS_BEING_PROCESSED;
	job->enc_keys = key->encrypt;
	job->dec_keys = key->decrypt;
	job->key_len_in_bytes = key->bytes;
	job->src = body;
	job->dst = body;
	job->cipher_start_src_offset_in_bytes = 0;
	job->msg_len_to_cipher_in_bytes = bytes;
	job->iv = iv;
	job->iv_len_in_bytes = AES_BLOCK;
	return IMB_SUBMIT_CIPHER_BURST_NOCHECK(manager->library, job, 1, IMB_CIPHER_CBC,
					       IMB_DIR_DECRYPT, key->bytes) == 1 &&
	       job->status == IMB_STATUS_COMPLETED;
}
