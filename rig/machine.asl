/*
 * What the virtual hardware lab adds to the emulated machine's ACPI tables.
 *
 * Frequency: each CPU has three P-states. Their control register is the scratch register of a
 * serial port (0x2FF for CPU 0, 0x2EF for CPU 1): it keeps what the driver writes, does
 * nothing else, and the emulator's monitor reads it from outside. It then holds ten times the
 * frequency in GHz.
 *
 * Idle: C1, and a second state of which the kernel believes that it takes 87 us to leave. Both
 * halt: a state entered by reading a port would return at once here, and keep the host busy.
 *
 * Power: a meter whose reading follows the registers by the core term of crates/server/servers/westmere-2010,
 * p(f) = 1.17 W + 3.267 W/GHz, on a base of 115 W; in milliwatts
 *
 *     115000 + sum over CPUs of (11700 + 3267 * register) / 10
 */
DefinitionBlock ("", "SSDT", 2, "WATTLN", "RIG", 1)
{
    External (\_SB.CPUS.C000, DeviceObj)
    External (\_SB.CPUS.C001, DeviceObj)

    Scope (\_SB)
    {
        OperationRegion (PCT0, SystemIO, 0x2FF, 1)
        Field (PCT0, ByteAcc, NoLock, Preserve) { PST0, 8 }
        OperationRegion (PCT1, SystemIO, 0x2EF, 1)
        Field (PCT1, ByteAcc, NoLock, Preserve) { PST1, 8 }

        // Frequency in MHz, power in mW, latencies in us, control and status value.
        Name (PSTS, Package ()
        {
            Package () { 3300, 11951, 10, 10, 33, 33 },
            Package () { 2400,  9010, 10, 10, 24, 24 },
            Package () { 1600,  6397, 10, 10, 16, 16 }
        })
        // Type 1 both: a C2 entered by a fixed instruction would need MWAIT, which this CPU has not.
        Name (CSTS, Package ()
        {
            2,
            Package () { ResourceTemplate () { Register (FFixedHW, 0, 0, 0) }, 1, 1, 1000 },
            Package () { ResourceTemplate () { Register (FFixedHW, 0, 0, 0) }, 1, 87, 500 }
        })

        Device (PMTR)
        {
            Name (_HID, "ACPI000D")
            Name (_UID, 0)
            // Measures only; mW; input power; 99 % accurate; sampled every 1000 ms.
            Name (_PMC, Package () { 1, 0, 0, 99000, 1000, 1000, 1000, 0, 0xFFFFFFFF, 0xFFFFFFFF, 0, "WATTLINE", "0", "emulated" })
            Method (_PMM, 0, Serialized)
            {
                Local0 = 23400 + 3267 * (PST0 + PST1)
                Return (115000 + Local0 / 10)
            }
            // What is measured: without this package, even empty, the driver shows nothing.
            Name (_PMD, Package (0) {})
            Method (_PAI, 1, NotSerialized) { Return (0) }
            Method (_GAI, 0, NotSerialized) { Return (1000) }
        }
    }

    Scope (\_SB.CPUS.C000)
    {
        Name (_PPC, 0)
        Name (_PCT, Package () { ResourceTemplate () { Register (SystemIO, 8, 0, 0x2FF) }, ResourceTemplate () { Register (SystemIO, 8, 0, 0x2FF) } })
        Method (_PSS, 0, NotSerialized) { Return (PSTS) }
        // A frequency domain of its own.
        Name (_PSD, Package () { Package () { 5, 0, 0, 0xFE, 1 } })
        Method (_CST, 0, NotSerialized) { Return (CSTS) }
    }

    Scope (\_SB.CPUS.C001)
    {
        Name (_PPC, 0)
        Name (_PCT, Package () { ResourceTemplate () { Register (SystemIO, 8, 0, 0x2EF) }, ResourceTemplate () { Register (SystemIO, 8, 0, 0x2EF) } })
        Method (_PSS, 0, NotSerialized) { Return (PSTS) }
        Name (_PSD, Package () { Package () { 5, 0, 1, 0xFE, 1 } })
        Method (_CST, 0, NotSerialized) { Return (CSTS) }
    }
}
