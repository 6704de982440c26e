/* What of DPDK is inline or a structure, behind plain functions. Every function that can fail returns
 * 0 or more, or a negative error number. */

#include <errno.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

/* Mirrors of these are in ffi.rs. */
struct wl_device {
	char driver[32];
	uint8_t mac[6];
	uint16_t mtu;
	uint16_t most_receive_queues;
	uint16_t most_transmit_queues;
};

struct wl_settings {
	uint16_t queues;
	uint16_t descriptors;
	/* Largest IP packet in bytes. */
	uint16_t mtu;
	uint8_t promiscuous;
};

struct wl_queue_memory {
	struct rte_mempool *pool;
};

struct wl_losses {
	uint64_t missed;
	uint64_t without_buffer;
	uint64_t damaged;
};

struct wl_link {
	uint32_t megabits;
	uint8_t up;
};

int wl_start(int count, char **arguments)
{
	int used = rte_eal_init(count, arguments);

	return used < 0 ? -(rte_errno ? rte_errno : EINVAL) : 0;
}

/* Where the environment keeps files for other processes. */
const char *wl_directory(void)
{
	return rte_eal_get_runtime_dir();
}

int wl_find(const char *name, uint16_t *port)
{
	return rte_eth_dev_get_port_by_name(name, port);
}

int wl_describe(uint16_t port, struct wl_device *device)
{
	struct rte_eth_dev_info info;
	struct rte_ether_addr mac;
	int error = rte_eth_dev_info_get(port, &info);

	if (error == 0)
		error = rte_eth_macaddr_get(port, &mac);
	if (error == 0)
		error = rte_eth_dev_get_mtu(port, &device->mtu);
	if (error != 0)
		return error;
	memcpy(device->mac, mac.addr_bytes, sizeof(device->mac));
	strncpy(device->driver, info.driver_name ? info.driver_name : "", sizeof(device->driver) - 1);
	device->driver[sizeof(device->driver) - 1] = 0;
	device->most_receive_queues = info.max_rx_queues;
	device->most_transmit_queues = info.max_tx_queues;
	return 0;
}

/* Sets a stopped device up. `memory` has one place for each queue; what was made there stays the
 * caller's to free (wl_free_memory), also after an error. */
int wl_configure(uint16_t port, const struct wl_settings *settings, struct wl_queue_memory *memory)
{
	struct rte_eth_conf conf;
	struct rte_eth_dev_info info;
	uint16_t receive = settings->descriptors, transmit = settings->descriptors;
	/* A frame with two tags lies in one buffer. Some cards count its room in whole KiB. */
	uint32_t room = RTE_MAX(RTE_ALIGN(settings->mtu + 64u, 1024u), 2048u);
	int socket = rte_eth_dev_socket_id(port);
	int error = rte_eth_dev_info_get(port, &info);

	if (error != 0)
		return error;
	memset(&conf, 0, sizeof(conf));
	if (settings->queues > 1) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf =
			(RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP) & info.flow_type_rss_offloads;
		if (conf.rx_adv_conf.rss_conf.rss_hf == 0)
			conf.rxmode.mq_mode = RTE_ETH_MQ_RX_NONE;
	}
	error = rte_eth_dev_configure(port, settings->queues, settings->queues, &conf);
	/* Virtual devices without an MTU take what comes. */
	if (error == 0) {
		error = rte_eth_dev_set_mtu(port, settings->mtu);
		if (error == -ENOTSUP)
			error = 0;
	}
	if (error == 0)
		error = rte_eth_dev_adjust_nb_rx_tx_desc(port, &receive, &transmit);
	for (uint16_t queue = 0; error == 0 && queue < settings->queues; queue++) {
		char name[RTE_MEMPOOL_NAMESIZE];
		/* Both rings full, a batch in our hands each way, and what a driver keeps back. */
		unsigned int count = receive + transmit + 512u;

		snprintf(name, sizeof(name), "wattline_%u_%u", port, queue);
		/* Of the kind that many threads may use: a driver may free a buffer in one of its own. */
		memory[queue].pool = rte_pktmbuf_pool_create(name, count, 0, 0,
			room + RTE_PKTMBUF_HEADROOM, socket);
		if (memory[queue].pool == NULL)
			return -(rte_errno ? rte_errno : ENOMEM);
		error = rte_eth_rx_queue_setup(port, queue, receive, socket, NULL, memory[queue].pool);
		if (error == 0)
			error = rte_eth_tx_queue_setup(port, queue, transmit, socket, NULL);
	}
	if (error == 0)
		error = rte_eth_dev_start(port);
	if (error != 0)
		return error;
	/* A router hears groups: ARP's broadcasts, neighbour discovery, routing protocols. A device that
	 * cannot be told hears all of them or takes what it gets. */
	(void)rte_eth_allmulticast_enable(port);
	if (settings->promiscuous) {
		error = rte_eth_promiscuous_enable(port);
		if (error == -ENOTSUP)
			error = 0;
	}
	return error;
}

void wl_close(uint16_t port)
{
	(void)rte_eth_dev_stop(port);
	(void)rte_eth_dev_close(port);
}

void wl_free_memory(struct rte_mempool *pool)
{
	rte_mempool_free(pool);
}

int wl_link(uint16_t port, struct wl_link *link)
{
	struct rte_eth_link now;
	int error = rte_eth_link_get_nowait(port, &now);

	if (error == 0) {
		link->megabits = now.link_speed;
		link->up = now.link_status == RTE_ETH_LINK_UP;
	}
	return error;
}

int wl_losses(uint16_t port, struct wl_losses *losses)
{
	struct rte_eth_stats stats;
	int error = rte_eth_stats_get(port, &stats);

	if (error == 0) {
		losses->missed = stats.imissed;
		losses->without_buffer = stats.rx_nombuf;
		losses->damaged = stats.ierrors;
	}
	return error;
}

uint16_t wl_receive(uint16_t port, uint16_t queue, struct rte_mbuf **buffers, uint16_t most)
{
	return rte_eth_rx_burst(port, queue, buffers, most);
}

uint32_t wl_length(const struct rte_mbuf *buffer)
{
	return rte_pktmbuf_pkt_len(buffer);
}

/* Copies a frame of `length` bytes, which is its own, out of one buffer or several. */
void wl_copy_out(const struct rte_mbuf *buffer, uint8_t *to, uint32_t length)
{
	const void *from = rte_pktmbuf_read(buffer, 0, length, to);

	if (from != NULL && from != to)
		memcpy(to, from, length);
}

void wl_free(struct rte_mbuf **buffers, uint32_t count)
{
	rte_pktmbuf_free_bulk(buffers, count);
}

/* All or none: 0, or negative. */
int wl_take(struct rte_mempool *pool, struct rte_mbuf **buffers, uint32_t count)
{
	return rte_pktmbuf_alloc_bulk(pool, buffers, count);
}

/* Copies a frame into an empty buffer; negative where it has no room. */
int wl_copy_in(struct rte_mbuf *buffer, const uint8_t *from, uint16_t length)
{
	char *to = rte_pktmbuf_append(buffer, length);

	if (to == NULL)
		return -EMSGSIZE;
	memcpy(to, from, length);
	return 0;
}

uint16_t wl_send(uint16_t port, uint16_t queue, struct rte_mbuf **buffers, uint16_t count)
{
	return rte_eth_tx_burst(port, queue, buffers, count);
}
