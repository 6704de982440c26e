"""The other end of a tunnel, by scapy: seals what a gateway is to open, opens what it sealed.

    ipsec_peer.py make FOLDER ALGORITHM OUTER ESN UDP     writes plain.pcap and sealed.pcap
    ipsec_peer.py check FOLDER ALGORITHM OUTER ESN UDP    reads wan-out.pcap and lan-out.pcap
"""

import sys

from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.ipsec import ESP, SecurityAssociation
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import rdpcap, wrpcap

NAMES = {
    "aes128-gcm": ("AES-GCM", None, 20, 0),
    "aes256-gcm": ("AES-GCM", None, 36, 0),
    "aes128-cbc-sha1": ("AES-CBC", "HMAC-SHA1-96", 16, 20),
    "aes256-cbc-sha1": ("AES-CBC", "HMAC-SHA1-96", 32, 20),
    "aes128-cbc-sha256": ("AES-CBC", "SHA2-256-128", 16, 32),
    "aes256-cbc-sha256": ("AES-CBC", "SHA2-256-128", 32, 32),
}


def association(spi, first, source, destination, algorithm, outer, esn, udp):
    cipher, integrity, cipher_key, integrity_key = NAMES[algorithm]
    key = bytes((first + index) & 0xFF for index in range(cipher_key + integrity_key))
    header = IP(src=source, dst=destination) if outer == "4" else IPv6(src=source, dst=destination)
    return SecurityAssociation(
        ESP,
        spi=spi,
        crypt_algo=cipher,
        crypt_key=key[:cipher_key],
        auth_algo=integrity,
        auth_key=key[cipher_key:] or None,
        tunnel_header=header,
        nat_t_header=UDP(sport=4500, dport=4500) if udp else None,
        esn_en=esn,
        esn=0,
    )


def packets(source4, destination4, source6, destination6):
    """Inner packets of many lengths and kinds."""
    for length in [0, 1, 2, 3, 13, 14, 15, 16, 17, 64, 333, 1200, 1300]:
        payload = Raw(bytes((7 * index) & 0xFF for index in range(length)))
        yield IP(src=source4, dst=destination4, ttl=64, tos=0xB8) / UDP(sport=7, dport=9) / payload
        yield IPv6(src=source6, dst=destination6, hlim=64, tc=0x28) / UDP(sport=7, dport=9) / payload
    yield IP(src=source4, dst=destination4, flags="DF") / TCP(sport=1, dport=2) / b"text"
    yield IP(src=source4, dst=destination4) / ICMP() / b"ping"


def forwarded(packet):
    """As a router leaves it."""
    packet = packet.copy()
    if IP in packet:
        packet[IP].ttl -= 1
        del packet[IP].chksum
    else:
        packet[IPv6].hlim -= 1
    return bytes(packet.__class__(bytes(packet)))


def main():
    action, folder, algorithm, outer, esn, udp = sys.argv[1:]
    esn, udp = esn == "1", udp == "1"
    near, far = ("192.0.2.1", "192.0.2.2") if outer == "4" else ("2001:db8:9::1", "2001:db8:9::2")
    sending = association(0x1002, 1, far, near, algorithm, outer, esn, udp)
    receiving = association(0x1001, 101, near, far, algorithm, outer, esn, udp)
    to_far = list(packets("10.1.0.2", "10.2.0.2", "2001:db8:1::2", "2001:db8:2::2"))
    to_near = list(packets("10.2.0.2", "10.1.0.2", "2001:db8:2::2", "2001:db8:1::2"))
    if action == "make":
        lan = Ether(src="02:00:00:00:01:02", dst="02:00:00:00:00:01")
        wan = Ether(src="02:00:00:00:02:02", dst="02:00:00:00:00:02")
        wrpcap(folder + "/plain.pcap", [lan / packet for packet in to_far])
        sealed = [wan / sending.encrypt(packet) for packet in to_near]
        # The last one again: a replay.
        wrpcap(folder + "/sealed.pcap", sealed + sealed[-1:])
        return
    opened = []
    for frame in rdpcap(folder + "/wan-out.pcap"):
        packet = frame[IP] if outer == "4" else frame[IPv6]
        opened.append(bytes(receiving.decrypt(packet.__class__(bytes(packet)), verify=True)))
    received = [bytes(frame.payload) for frame in rdpcap(folder + "/lan-out.pcap")]
    for name, found, wanted in [("sealed", opened, to_far), ("opened", received, to_near)]:
        wanted = sorted(forwarded(packet) for packet in wanted)
        if sorted(found) != wanted:
            sys.exit(f"{name} by the gateway: {len(found)} packets, {len(wanted)} expected, "
                     f"{len(set(found) & set(wanted))} of them equal")
    print(f"{len(opened)} sealed, {len(received)} opened")


main()
