/*
 * Intel's ipsec-mb, the cryptography alone, beside `wattline bench app ipsec --peer`.
 *
 * First a line of JSON says which version it is. Then each line of standard input,
 * "ALGORITHM DIRECTION BYTES BATCHES" (aes128-gcm send 1386 32), is answered by a line of JSON:
 * nanoseconds per packet over so many batches of 64 packets, each with so many bytes to encrypt,
 * by the time that the thread really ran. Buffers are those of the caller's own measurement: 64,
 * not a power of two apart. What is done to a packet is what ESP does:
 *   aes128-gcm        IV of 12 bytes, 12 of associated data (extended sequence numbers), ICV of 16
 *   aes128-cbc-sha1   encrypted (whole blocks), then HMAC-SHA1-96 over header, IV, body and the
 *                     high half of the sequence number; many packets at once, which is the point
 *                     of the library
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <intel-ipsec-mb.h>

#define BATCH 64
#define CHUNK (2048 + 64)
#define LONGEST 1600
#define HEADER 8 /* SPI and sequence number */
#define IV 16
#define HIGH 4 /* high half of the sequence number, behind the body */

static uint8_t memory[BATCH * CHUNK] __attribute__((aligned(64)));
static uint8_t tags[BATCH][16], ivs[BATCH][16];
static IMB_MGR *manager;
static struct gcm_key_data gcm;
static uint32_t encrypt_keys[60] __attribute__((aligned(64)));
static uint32_t decrypt_keys[60] __attribute__((aligned(64)));
static uint8_t inner_hash[20], outer_hash[20];

static double cpu_nanoseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

static void expand_keys(void)
{
	uint8_t key[16], pad[64];

	memset(key, 0x5a, sizeof(key));
	IMB_AES128_GCM_PRE(manager, key, &gcm);
	IMB_AES_KEYEXP_128(manager, key, encrypt_keys, decrypt_keys);
	/* A key of 20 bytes, padded with zeros (RFC 2104). */
	memset(pad, 0x36, sizeof(pad));
	for (int i = 0; i < 20; i++)
		pad[i] ^= 0x5a;
	IMB_SHA1_ONE_BLOCK(manager, pad, inner_hash);
	for (int i = 0; i < 64; i++)
		pad[i] ^= 0x36 ^ 0x5c;
	IMB_SHA1_ONE_BLOCK(manager, pad, outer_hash);
}

static void gcm_batch(int send, unsigned bytes)
{
	struct gcm_context_data context;

	for (int i = 0; i < BATCH; i++) {
		uint8_t *packet = memory + i * CHUNK, *body = packet + HEADER + IV;
		uint8_t iv[12] = { 0 }, aad[12];

		memcpy(iv + 4, packet + HEADER, 8);
		memcpy(aad, packet, sizeof(aad));
		if (send)
			IMB_AES128_GCM_ENC(manager, &gcm, &context, body, body, bytes, iv, aad,
					   sizeof(aad), tags[i], 16);
		else
			IMB_AES128_GCM_DEC(manager, &gcm, &context, body, body, bytes, iv, aad,
					   sizeof(aad), tags[i], 16);
	}
}

static int failed(const IMB_JOB *job)
{
	return job != NULL && job->status != IMB_STATUS_COMPLETED;
}

static int cbc_batch(int send, unsigned bytes)
{
	int wrong = 0;
	IMB_JOB *done;

	for (int i = 0; i < BATCH; i++) {
		uint8_t *packet = memory + i * CHUNK;
		IMB_JOB *job = IMB_GET_NEXT_JOB(manager);

		job->cipher_mode = IMB_CIPHER_CBC;
		job->cipher_direction = send ? IMB_DIR_ENCRYPT : IMB_DIR_DECRYPT;
		job->chain_order = send ? IMB_ORDER_CIPHER_HASH : IMB_ORDER_HASH_CIPHER;
		job->hash_alg = IMB_AUTH_HMAC_SHA_1;
		job->enc_keys = encrypt_keys;
		job->dec_keys = decrypt_keys;
		job->key_len_in_bytes = 16;
		job->src = packet;
		job->dst = packet + HEADER + IV;
		job->cipher_start_src_offset_in_bytes = HEADER + IV;
		job->msg_len_to_cipher_in_bytes = bytes;
		job->hash_start_src_offset_in_bytes = 0;
		job->msg_len_to_hash_in_bytes = HEADER + IV + bytes + HIGH;
		job->iv = ivs[i];
		job->iv_len_in_bytes = IV;
		job->auth_tag_output = tags[i];
		job->auth_tag_output_len_in_bytes = 12;
		job->u.HMAC._hashed_auth_key_xor_ipad = inner_hash;
		job->u.HMAC._hashed_auth_key_xor_opad = outer_hash;
		wrong += failed(IMB_SUBMIT_JOB(manager));
	}
	/* A router has to send a batch before it takes the next. */
	while ((done = IMB_FLUSH_JOB(manager)) != NULL)
		wrong += failed(done);
	return wrong;
}

static void answer(const char *algorithm, const char *direction, unsigned bytes, unsigned batches)
{
	int is_gcm = strcmp(algorithm, "aes128-gcm") == 0;
	int is_cbc = strcmp(algorithm, "aes128-cbc-sha1") == 0;
	int send = strcmp(direction, "send") == 0, wrong = 0;
	double before;

	if (!(is_gcm || is_cbc) || bytes == 0 || bytes > LONGEST || batches == 0 ||
	    (is_cbc && bytes % 16 != 0)) {
		printf("{\"available\": false}\n");
		return;
	}
	before = cpu_nanoseconds();
	for (unsigned i = 0; i < batches; i++) {
		if (is_gcm)
			gcm_batch(send, bytes);
		else
			wrong += cbc_batch(send, bytes);
	}
	if (wrong)
		printf("{\"available\": false}\n");
	else
		printf("{\"available\": true, \"nanoseconds_per_packet\": %.3f}\n",
		       (cpu_nanoseconds() - before) / batches / BATCH);
}

int main(void)
{
	char algorithm[32], direction[16];
	unsigned bytes, batches;

	manager = alloc_mb_mgr(0);
	if (manager == NULL)
		return 1;
	init_mb_mgr_auto(manager, NULL);
	memset(memory, 0x5a, sizeof(memory));
	expand_keys();
	printf("{\"version\": \"%s\"}\n", imb_get_version_str());
	fflush(stdout);
	while (scanf("%31s %15s %u %u", algorithm, direction, &bytes, &batches) == 4) {
		answer(algorithm, direction, bytes, batches);
		fflush(stdout);
	}
	free_mb_mgr(manager);
	return 0;
}
