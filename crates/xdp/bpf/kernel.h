/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Structures of the kernel, as far as programs read them. The real offsets of their members are taken from
 * the type information of the running kernel when a program is loaded (CO-RE).
 */
#pragma once

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
    unsigned int inum;
};

/* A network namespace. */
struct net {
    struct ns_common ns;
};

typedef struct {
    struct net *net;
} possible_net_t;

/* An interface. */
struct net_device {
    int ifindex;
    possible_net_t nd_net;
};

/* An instance that polls the queues of an interface's interrupt. */
struct napi_struct {
    struct net_device *dev;
    unsigned int napi_id;
};

struct dst_entry {
    struct net_device *dev;
};

/* The route of an IPv4 packet. */
struct rtable {
    struct dst_entry dst;
    __u8 rt_gw_family;
    __be32 rt_gw4;
};

struct in6_addr {
    __be32 words[4];
};

/* The same for IPv6. */
struct rt6_info {
    struct dst_entry dst;
    struct in6_addr rt6i_gateway;
};

#pragma clang attribute pop
