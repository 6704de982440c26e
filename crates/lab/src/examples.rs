//! Examples of the laboratory's commands, shown at the end of their help, in manual pages and on the reference
//! page. A test sees that each can be parsed.

use wattline::cli::Examples;

/// The examples of the laboratory.
pub const EXAMPLES: &[Examples] = &[
    (
        "report",
        &[
            (
                "What a policy changes: files of `wattline sim ... --json`, one for each seed",
                "wattline report poll queue-length --page compared.html",
            ),
            ("Only watts, for a script", "wattline report poll queue-length --only watts --json"),
        ],
    ),
    (
        "profile",
        &[
            (
                "memcached's tail latency by load, state and moderation",
                "wattline profile memcached 192.0.2.2:11211 --rate 100k --out memcached.csv",
            ),
            (
                "A small grid, without a meter",
                "wattline profile http http://192.0.2.2/ --rate 5k --states 2 --periods 3 \
                 --without-power --out web.csv",
            ),
        ],
    ),
    (
        "profile memcached",
        &[
            (
                "The tables for policy copi, four loads up to 100,000 requests a second",
                "wattline profile memcached 192.0.2.2:11211 --rate 100k --out memcached.csv",
            ),
            (
                "Only the points that a target of 800 us needs",
                "wattline profile memcached 192.0.2.2:11211 --rate 100k --sparse --target 800us --out memcached.csv",
            ),
        ],
    ),
    (
        "profile http",
        &[
            (
                "A small grid, without a meter",
                "wattline profile http http://192.0.2.2/ --rate 5k --states 2 --periods 3 --without-power --out web.csv",
            ),
            (
                "Requests that leave by another network namespace",
                "wattline profile http http://192.0.2.2/ --rate 5k --netns client --out web.csv",
            ),
        ],
    ),
    (
        "sim",
        &[
            (
                "PowerSave on its own server",
                "wattline sim --server westmere-2010 --policy queue-length --traffic poisson:5Mpps,size=64",
            ),
            (
                "Why Wattline's own policy decides as it does",
                "wattline sim --policy wattline:p99=100us --traffic day:8Mpps,duration=100ms --explain",
            ),
            (
                "A page with the course of a day",
                "wattline sim --traffic day:8Mpps,duration=100ms --interval 1ms --page day.html",
            ),
            (
                "memcached on the kernel's stack",
                "wattline sim --requests memcached:100krps --policy ondemand+84us",
            ),
        ],
    ),
    (
        "sweep",
        &[
            (
                "Three policies at two loads",
                "wattline sweep --policy poll,napi,queue-length --traffic poisson:2Mpps,poisson:8Mpps",
            ),
            (
                "Five seeds, as a table for other programs",
                "wattline sweep --traffic poisson:5Mpps --seed 1,2,3,4,5 --csv sweep.csv",
            ),
            (
                "A page with the power of two policies over the load",
                "wattline sweep --policy napi,queue-length --traffic poisson:2Mpps,poisson:8Mpps --page sweep.html",
            ),
        ],
    ),
    (
        "league",
        &[
            ("Run the built-in league that takes some minutes", "wattline league --quick"),
            ("Your own, with its page", "wattline league league.toml --out league"),
            (
                "After an interruption the same again, which goes on from there",
                "wattline league league.toml --out league",
            ),
        ],
    ),
    (
        "envelope",
        &[
            ("The least energy that keeps 100 us", "wattline envelope --traffic poisson:5Mpps"),
            ("With a tighter budget", "wattline envelope --traffic poisson:5Mpps --p99 50us"),
        ],
    ),
    (
        "servers",
        &[
            ("All shipped models", "wattline servers"),
            ("One as a start for your own", "wattline servers westmere-2010 --toml > mine.toml"),
        ],
    ),
    (
        "nics",
        &[
            ("All cards", "wattline nics"),
            (
                "The best for a throughput and a power budget",
                "wattline nics choose --throughput 16Gbit/s --power 15W",
            ),
        ],
    ),
    (
        "nics show",
        &[
            ("A card's figures, each with its origin", "wattline nics show SFE4003"),
            ("Its power model for NetPowerBench", "wattline nics show PEG4I-RoHS --power-model"),
        ],
    ),
    (
        "nics compare",
        &[
            ("Media, offload, links and ports", "wattline nics compare"),
            ("Cards of your own", "wattline nics compare --cards cards.toml"),
        ],
    ),
    (
        "nics model",
        &[
            ("What a device's model says", "wattline nics model power_model.yml"),
            (
                "Four ports at 10 Gbit/s each",
                "wattline nics model power_model.yml --ports 4 --rate 10Gbit/s",
            ),
        ],
    ),
    (
        "nics choose",
        &[
            ("Within four slots", "wattline nics choose --throughput 16Gbit/s --slots 4"),
            (
                "Within half of one processor",
                "wattline nics choose --throughput 2Gbit/s --cpu-budget 50",
            ),
        ],
    ),
    (
        "fit",
        &[
            (
                "A server file from measured rows",
                "wattline fit rows.csv --out mine.toml --name mine",
            ),
            (
                "With a drawing of what the model misses",
                "wattline fit rows.csv --svg residuals.svg",
            ),
        ],
    ),
    (
        "characterise",
        &[
            (
                "A server file from a simulated router",
                "wattline characterise --server westmere-2010 --out fitted.toml",
            ),
            (
                "The same for flow records and longer packets",
                "wattline characterise --app netflow --size 256 --out netflow.toml",
            ),
            (
                "The same of the emulated server, on an idle machine",
                "wattline characterise --on scale --out emulated.toml",
            ),
        ],
    ),
    (
        "optimise",
        &[
            (
                "Cheapest setting for a rate",
                "wattline optimise --server westmere-2010 --target 5Mpps",
            ),
            ("For rates over a day", "wattline optimise --server westmere-2010 --trace day.csv"),
        ],
    ),
    (
        "receive",
        &[
            ("The paper's server with a larger cache", "wattline receive --llc-bytes 33554432"),
            (
                "Every proposal of the paper at 40 Gbit/s of goodput",
                "wattline receive --proposal all --rate 40Gbit/s",
            ),
        ],
    ),
    (
        "demo",
        &[
            ("A day in miniature and the comparison with the kernel", "wattline demo --out target"),
            ("A shorter day alone", "wattline demo --only day --duration 20s"),
            (
                "Shown in a browser at http://127.0.0.1:9418 while it runs",
                "wattline demo --dashboard 127.0.0.1:9418",
            ),
        ],
    ),
    (
        "load",
        &[
            (
                "100,000 requests a second to memcached",
                "wattline load memcached 127.0.0.1:11211 --rate 100k",
            ),
            ("Pages of a web server", "wattline load http http://127.0.0.1:8080/ --rate 10k"),
        ],
    ),
    (
        "load memcached",
        &[
            (
                "100,000 requests a second for ten seconds",
                "wattline load memcached 127.0.0.1:11211 --rate 100k",
            ),
            (
                "Gets alone of small values, with a page",
                "wattline load memcached 127.0.0.1:11211 --rate 50k --gets-per-set inf --value-size 32 --page load.html",
            ),
        ],
    ),
    (
        "load http",
        &[
            ("Pages of a web server", "wattline load http http://127.0.0.1:8080/ --rate 10k"),
            (
                "A minute, one request every 1/rate seconds",
                "wattline load http http://127.0.0.1:8080/ --rate 2k --arrivals constant --duration 60s",
            ),
        ],
    ),
    (
        "load packets",
        &[
            (
                "A device between two interfaces, all flows at one rate",
                "wattline load packets --from eth0 --to eth1 --mac 02:00:00:00:00:01 --rate 100k",
            ),
            ("What a plain link carries", "wattline load packets --from a --to b --rate max"),
        ],
    ),
    (
        "bench rfc2544",
        &[
            ("The kernel's forwarding on this machine", "wattline bench rfc2544 --device kernel"),
            (
                "Wattline's XDP programs, two frame lengths",
                "wattline bench rfc2544 --device xdp --sizes 64,1518",
            ),
        ],
    ),
    (
        "bench breakdown",
        &[
            ("Small and large writes, with and without offloads", "wattline bench breakdown"),
            (
                "Writes of 64 bytes over one connection, the kernel alone",
                "wattline bench breakdown --io 64 --connections 1 --no-own",
            ),
        ],
    ),
    (
        "bench eer",
        &[
            ("The emulated server under queue-length", "wattline bench eer"),
            ("An access device under poll", "wattline bench eer --class access --policy poll"),
            ("The kernel's forwarding on this machine", "wattline bench eer --device kernel"),
        ],
    ),
    (
        "bench nic",
        &[
            ("The cards of this machine", "wattline bench nic"),
            (
                "What a cable between two of them carries",
                "wattline bench nic --from eth1 --to eth2",
            ),
        ],
    ),
    (
        "bench",
        &[
            ("Longest-prefix match", "wattline bench fib --routes routes.txt"),
            ("The whole IPv4 graph on one core", "wattline bench pipeline --routes routes.txt"),
        ],
    ),
    (
        "bench fib",
        &[
            ("With the best kernel of this processor", "wattline bench fib --routes routes.txt"),
            ("Beside DPDK's rte_fib", "wattline bench fib --routes routes.txt --peer"),
        ],
    ),
    (
        "bench pipeline",
        &[
            ("Frames of 64 bytes", "wattline bench pipeline --routes routes.txt"),
            (
                "Long frames in small batches",
                "wattline bench pipeline --routes routes.txt --packet-size 1518 --batch 16",
            ),
        ],
    ),
    (
        "bench forward",
        &[
            ("Wattline and the kernel, in turns", "wattline bench forward"),
            (
                "Longer, beside DPDK's l3fwd",
                "wattline bench forward --seconds 10 --l3fwd target/peers/l3fwd",
            ),
        ],
    ),
    (
        "bench loop",
        &[
            ("The loop of queue-length", "wattline bench loop"),
            ("Of Wattline's own policy", "wattline bench loop --policy wattline:p99=100us"),
        ],
    ),
    (
        "bench sim",
        &[
            ("Twelve cores under full load", "wattline bench sim"),
            (
                "Another traffic, for a script",
                "wattline bench sim --traffic poisson:5Mpps,size=64 --json",
            ),
        ],
    ),
    (
        "bench app",
        &[
            ("All applications", "wattline bench app all"),
            (
                "ESP of one algorithm, sending alone",
                "wattline bench app ipsec --algorithm aes256-gcm --direction send",
            ),
        ],
    ),
    (
        "bench costs",
        &[
            (
                "A file of costs from what was measured",
                "wattline bench costs app.json > costs.toml",
            ),
            ("With a name of its own", "wattline bench costs app.json --name mine > mine.toml"),
        ],
    ),
    (
        "reproduce",
        &[
            ("Everything, as a page", "wattline reproduce all --out published-against-ours"),
            ("One figure", "wattline reproduce powersave/fig12 --out fig12"),
        ],
    ),
];
