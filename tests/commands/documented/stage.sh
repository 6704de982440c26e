# What stands around the commands of a page while a test runs them: hosts, a router, servers. A scene
# of scenes.toml calls what its page needs. Network, processes, `/run`, `/etc` and `/var/lib` are the
# scene's own and end with it; knobs of the machine are hidden from it.
set -e -o pipefail
sudo() { "$@"; }
umask 022

# Waits until a command succeeds, for ten seconds. The page's own commands come to no harm by it.
until_done() {
    for _ in $(seq 100); do
        if "$@" > until.log 2>&1; then return; fi
        sleep 0.1
    done
    echo "after ten seconds: $*"
    cat until.log
    return 1
}

# A router or governor answers.
until_up() { until_done wattline stats; }

# Lets it run for some seconds, then sends what Ctrl-C sends.
for_seconds() {
    local seconds=$1 result=0
    shift
    timeout --foreground --preserve-status --signal=INT "$seconds" "$@" || result=$?
    # 130: it ends as Ctrl-C ends a program that cleans up first.
    [ $result -eq 0 ] || [ $result -eq 130 ] || return $result
}

# The same for a command that needs a terminal.
on_terminal() { for_seconds 2 script -qec "$*" /dev/null; }

# The machine is a router between two hosts, `source` and `sink`, by its interfaces eth1 and eth2.
hosts() {
    for pair in source:1:18 sink:2:19; do
        IFS=: read -r name number net <<< "$pair"
        ip netns add "$name"
        ip link add "eth$number" type veth peer name host netns "$name"
        ip address add "198.$net.0.1/24" dev "eth$number"
        ip -n "$name" address add "198.$net.0.2/24" dev host
        ethtool -K "eth$number" tx off gro off > ethtool.log
        ip netns exec "$name" ethtool -K host tx off gro off > ethtool.log
        ip link set "eth$number" up
        ip -n "$name" link set host up
        ip -n "$name" route add default via "198.$net.0.1"
    done
    sysctl -q -w net.ipv4.ip_forward=1
    until_done ip netns exec source ping -c 1 -W 1 198.19.0.2
}

# A configuration with these ports, each an interface of the same name.
ports() {
    for port in "$@"; do
        printf '[[port]]\nname = "%s"\ninterface = "%s"\n\n' "$port" "$port"
    done
}

# A router of eth1 and eth2 with traffic in both directions.
router() {
    hosts
    [ -e router.toml ] || ports eth1 eth2 > router.toml
    wattline run router.toml > router.log 2>&1 &
    until_up || { cat router.log; return 1; }
    ip netns exec source ping -q -i 0.02 198.19.0.2 > ping.log &
}

# A forwarding device between eth1 and eth2, in a namespace of its own.
device() {
    ip netns add device
    ip link add eth1 type veth peer name in netns device
    ip link add eth2 type veth peer name out netns device
    ip -n device link set in address 02:00:00:00:00:11
    ip -n device address add 198.18.0.1/24 dev in
    ip -n device address add 198.19.0.1/24 dev out
    ip address add 198.19.0.2/24 dev eth2
    for name in in out; do ip -n device link set "$name" up; done
    for name in eth1 eth2; do ip link set "$name" up; done
    ip netns exec device sysctl -q -w net.ipv4.ip_forward=1
    ip -n device neighbour replace 198.19.0.2 dev out lladdr "$(cat /sys/class/net/eth2/address)"
}

# A host `192.0.2.10` with both servers.
servers() {
    ip netns add server
    ip link add to-server type veth peer name host netns server
    ip address add 192.0.2.1/24 dev to-server
    ip -n server address add 192.0.2.10/24 dev host
    ip link set to-server up
    ip -n server link set host up
    ip netns exec server "$MEMCACHED_PROGRAM" -u root -l 192.0.2.10 -t 1 -c 2048 &
    mkdir www
    echo hello > www/index.html
    cat > nginx.conf <<CONF
daemon off;
user root;
pid $PWD/nginx.pid;
error_log $PWD/nginx.log;
events { worker_connections 2048; }
http {
    access_log off;
    client_body_temp_path $PWD/nginx-body;
    proxy_temp_path $PWD/nginx-proxy;
    fastcgi_temp_path $PWD/nginx-fastcgi;
    uwsgi_temp_path $PWD/nginx-uwsgi;
    scgi_temp_path $PWD/nginx-scgi;
    server { listen 192.0.2.10:80; root $PWD/www; }
}
CONF
    ip netns exec server "$NGINX_PROGRAM" -e "$PWD/nginx.log" -c "$PWD/nginx.conf" &
    until_done bash -c ': < /dev/tcp/192.0.2.10/11211 && : < /dev/tcp/192.0.2.10/80'
}
