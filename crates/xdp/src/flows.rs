//! The program that forwards flows of an nftables flowtable (`bpf/flow.h`), and its parameters from
//! the running kernel.

use crate::bpf::{BpfError, KernelFunction, Object};
use rustix::io::Errno;
use wattline_linux::kernel_types::KernelTypes;

/// Helper number that is replaced by the kernel's function, as in `bpf/flow.h`.
const LOOKUP: i32 = 0x57a1_1e01;
/// The kernel's function, its module, and its first kernel version.
const FUNCTION: &str = "bpf_xdp_flow_lookup";
const MODULE: &str = "nf_flow_table";
const FEATURE: &str = "the module nf_flow_table with type information (Linux 6.10)";
/// Bytes of a tuple that the program reads at a time, as in `bpf/flow.h`.
const KEYS_BYTES: u32 = 56;
const REST_BYTES: u32 = 32;

/// The kernel's look-up of flows, and the offsets of members of its structures.
#[derive(Debug)]
pub struct FlowLookup {
    function: KernelFunction,
    /// Bytes from the first tuple of a flow to the second.
    step: u32,
    places: [(&'static str, u32); 14],
}

impl FlowLookup {
    /// Finds the look-up in the running kernel.
    ///
    /// # Errors
    /// [`BpfError::MissingFeature`] if the module is not loaded or lacks the function, or its
    /// structures are unknown; without CAP_SYS_ADMIN, which nothing else needs later.
    pub fn open() -> Result<Self, BpfError> {
        let absent = || BpfError::MissingFeature {
            action: "looking up the flows of a flowtable".to_owned(),
            feature: FEATURE,
            source: Errno::NOENT,
        };
        let types = KernelTypes::read(MODULE).ok_or_else(absent)?;
        let function = KernelFunction::find(&types, FUNCTION, MODULE)
            .map_err(|it| it.unwrap_or_else(absent))?;
        let (step, places) = places(&types).ok_or_else(absent)?;
        Ok(Self { function, step, places })
    }

    /// Sets the program's offsets in the kernel's structures.
    pub(crate) fn prepare(&self, object: &mut Object) -> Result<(), BpfError> {
        let bytes = self.places.map(|(name, value)| (name, value.to_ne_bytes()));
        object.set(&bytes.each_ref().map(|(name, value)| (*name, &value[..])))?;
        let step = i64::from(self.step);
        object.set(&[("tuple_step", &step.to_ne_bytes()), ("tuple_back", &(-step).to_ne_bytes())])
    }

    /// Returns the helper number in the program, and the function that replaces it.
    pub(crate) fn called(&self) -> (i32, &KernelFunction) {
        (LOOKUP, &self.function)
    }
}

/// Returns the size of a tuple with its header, and offsets within it, by the program's names;
/// `None` if the structures are not as the program assumes.
fn places(types: &KernelTypes) -> Option<(u32, [(&'static str, u32); 14])> {
    let bits = |member: &str| types.member("flow_offload_tuple", member);
    let bytes = |member: &str| bits(member).map(|bit| bit / 8);
    let keys_at = types.member("flow_offload_tuple_rhash", "tuple")? / 8;
    let is_shared = |v4: &str, v6: &str| bits(v4) == bits(v6);
    // Both tuples of a flow, the first at its beginning; addresses of both families at the same
    // offset.
    if types.member("flow_offload", "tuplehash")? != 0
        || !is_shared("src_v4", "src_v6")
        || !is_shared("dst_v4", "dst_v6")
    {
        return None;
    }
    let keys = ["src_v4", "dst_v4", "src_port", "dst_port"].map(bytes);
    let [source, target, source_port, target_port] = keys;
    let keys = [source?, target?, source_port?, target_port?];
    let rest_at = bytes("dir")? & !7;
    let rest_bits = ["xmit_type", "dir", "encap_num"].map(|member| {
        let bit = bits(member)?.checked_sub(rest_at * 8)?;
        // The program looks for it within the first eight bytes.
        (bit < 64).then_some(bit)
    });
    let [transmit, direction, tags] = rest_bits;
    let in_rest = |member: &str| bytes(member)?.checked_sub(rest_at);
    let (mtu, route) = (in_rest("mtu")?, in_rest("dst_cache")?);
    let port = ["out.ifidx", "out.h_source", "out.h_dest"].map(in_rest);
    let port = [port[0]?, port[1]?, port[2]?];
    let fits = keys[..2].iter().all(|at| at + 16 <= KEYS_BYTES)
        && keys[2..].iter().all(|at| at + 2 <= KEYS_BYTES)
        && rest_at + 8 <= KEYS_BYTES
        && mtu + 2 <= REST_BYTES
        && route + 8 <= REST_BYTES
        && port.iter().all(|at| at + 6 <= REST_BYTES)
        && port[0] % 4 == 0
        && keys_at % 8 == 0
        && route % 8 == 0;
    let size = types.size("flow_offload_tuple_rhash")?;
    let found = [
        ("keys_at", keys_at),
        ("source_at", keys[0]),
        ("target_at", keys[1]),
        ("source_port_at", keys[2]),
        ("target_port_at", keys[3]),
        ("rest_at", rest_at),
        ("transmit_bit", transmit?),
        ("direction_bit", direction?),
        ("tags_bit", tags?),
        ("mtu_at", mtu),
        ("route_at", route),
        ("port_at", port[0]),
        ("port_from_at", port[1]),
        ("port_to_at", port[2]),
    ];
    fits.then_some((size, found))
}
