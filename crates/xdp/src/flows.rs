//! The program that forwards flows of an nftables flowtable (`bpf/flow.h`), and what it has to know of the
//! running kernel.

use crate::bpf::{BpfError, KernelFunction, KernelTypes, Object};
use rustix::io::Errno;

/// Number in the place of which the program calls the kernel's function, as in `bpf/flow.h`.
pub(crate) const LOOKUP: i32 = 0x57a1_1e01;
/// The kernel's function, its module, and since when there is one.
const FUNCTION: &str = "bpf_xdp_flow_lookup";
const MODULE: &str = "nf_flow_table";
const FEATURE: &str = "the module nf_flow_table with type information (Linux 6.10)";
/// Bytes of a tuple that the program reads at a time, as in `bpf/flow.h`.
const KEYS_BYTES: u32 = 40;
const REST_BYTES: u32 = 24;

/// Finds the kernel's function, and tells the program where things are in the kernel's structures.
///
/// # Errors
/// [`BpfError::MissingFeature`] where the kernel lacks it, or its structures are others than those that are
/// known; without CAP_SYS_ADMIN.
pub(crate) fn prepare(object: &mut Object) -> Result<KernelFunction, BpfError> {
    let absent = |action: &str| BpfError::MissingFeature {
        action: action.to_owned(),
        feature: FEATURE,
        source: Errno::NOENT,
    };
    let types =
        KernelTypes::read(MODULE).ok_or_else(|| absent("looking at the flows of a flowtable"))?;
    let function = KernelFunction::find(&types, FUNCTION, MODULE, FEATURE)?;
    let known = constants(&types);
    let (step, places) = known.ok_or_else(|| absent("reading the flows of a flowtable"))?;
    let bytes = places.map(|(name, value)| (name, value.to_ne_bytes()));
    object.set(&bytes.each_ref().map(|(name, value)| (*name, &value[..])))?;
    let (step, back) = (i64::from(step).to_ne_bytes(), (-i64::from(step)).to_ne_bytes());
    object.set(&[("tuple_step", &step), ("tuple_back", &back)])?;
    Ok(function)
}

/// The size of a tuple with its header, and places within it, by the program's names; `None` where the
/// structures are not as the program takes them to be.
fn constants(types: &KernelTypes) -> Option<(u32, [(&'static str, u32); 11])> {
    let bits = |member: &str| types.member("flow_offload_tuple", member);
    let bytes = |member: &str| bits(member).map(|bit| bit / 8);
    let keys_at = types.member("flow_offload_tuple_rhash", "tuple")? / 8;
    // Both tuples of a flow, the first at its begin.
    if types.member("flow_offload", "tuplehash")? != 0 {
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
    let mtu = bytes("mtu")?.checked_sub(rest_at)?;
    let route = bytes("dst_cache")?.checked_sub(rest_at)?;
    let fits = keys.iter().all(|at| at + 4 <= KEYS_BYTES)
        && mtu + 2 <= REST_BYTES
        && route + 8 <= REST_BYTES
        && keys_at % 8 == 0
        && route % 8 == 0;
    let size = types.size("flow_offload_tuple_rhash")?;
    let places = [
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
    ];
    fits.then_some((size, places))
}

#[cfg(test)]
mod tests {
    use crate::XdpForward;
    use crate::bpf::BpfError;
    use crate::loaded::Loaded;

    #[test]
    fn program_is_accepted_where_kernel_has_function() {
        let forward = match XdpForward::new() {
            Ok(forward) => forward,
            Err(error) => return wattline_needs::rights(&error),
        };
        match Loaded::of_flows([0; 6], forward.ways()) {
            Ok(_) => {}
            Err(error @ BpfError::MissingFeature { .. }) => wattline_needs::machine(error),
            Err(error) => panic!("{error}"),
        }
    }
}
