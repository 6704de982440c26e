//! The program of an interface with its maps, loaded but not attached yet.

use crate::bpf::{BpfError, KernelFunction, Map, Object, Program, object};
use crate::egress::{EgressPorts, ForwardMaps};
use crate::flows::FlowLookup;
use crate::local::Local;
use crate::station::Station;
use std::sync::Arc;

/// The program and its maps.
pub(crate) struct Loaded {
    pub(crate) maps: Maps,
    pub(crate) program: Program,
}

/// The maps of one program; `bpf/port.h`, `bpf/verdict.h` and `bpf/forward.h` describe their
/// contents.
pub(crate) struct Maps {
    pub(crate) sockets: Map,
    pub(crate) station: Map,
    pub(crate) vlans: Map,
    pub(crate) local: Local,
    pub(crate) left_v4: Map,
    pub(crate) left_v6: Map,
    pub(crate) routes_v4: Map,
    pub(crate) routes_v6: Map,
    pub(crate) counters: Arc<Map>,
    /// Maps of a program that forwards by itself.
    pub(crate) forward: Option<ForwardMaps>,
}

impl Maps {
    fn all(&self) -> Vec<&Map> {
        let Self { sockets, station, vlans, local, left_v4, left_v6, .. } = self;
        let Self { routes_v4, routes_v6, counters, forward, .. } = self;
        let mut all = vec![sockets, station, vlans, left_v4, left_v6];
        all.extend([routes_v4, routes_v6, counters.as_ref()]);
        all.extend(local.all());
        all.extend(forward.iter().flat_map(ForwardMaps::all));
        all
    }
}

impl Loaded {
    /// Loads the program for an interface with this address; with `ports`, the program that forwards
    /// between these ports by itself.
    pub(crate) fn new(mac: [u8; 6], ports: Option<&Arc<EgressPorts>>) -> Result<Self, BpfError> {
        let Some(ports) = ports else {
            let object = object!("sockets")?;
            let maps = Maps::new(&object, mac, None)?;
            let program = object.load(&maps.all())?;
            return Ok(Self { maps, program });
        };
        Self::forwarding(mac, ports, || object!("forward"), None)
    }

    /// Loads the program that forwards the flows of a flowtable between `ports`, and nothing else.
    pub(crate) fn flow_program(
        mac: [u8; 6],
        ports: &Arc<EgressPorts>,
        lookup: &FlowLookup,
    ) -> Result<Self, BpfError> {
        let object = || {
            let mut object = object!("flows")?;
            lookup.prepare(&mut object)?;
            Ok(object)
        };
        Self::forwarding(mac, ports, object, Some(lookup.called()))
    }

    /// Loads a program that forwards. Some kernels' verifiers refuse copies, which forwarding does
    /// not need: the program is then loaded without them.
    fn forwarding(
        mac: [u8; 6],
        ports: &Arc<EgressPorts>,
        object: impl Fn() -> Result<Object, BpfError>,
        called: Option<(i32, &KernelFunction)>,
    ) -> Result<Self, BpfError> {
        let with = |copies: bool| {
            let mut object = object()?;
            object.set(&[("may_copy", &u32::from(copies).to_ne_bytes())])?;
            let maps = Maps::new(&object, mac, Some(ports))?;
            let program = object.load_calling(&maps.all(), called)?;
            Ok(Self { maps, program })
        };
        if ports.copies.is_refused() {
            return with(false);
        }
        match with(true) {
            Err(BpfError::Rejected { .. }) => {
                ports.copies.refuse();
                with(false)
            }
            loaded => loaded,
        }
    }
}

impl Maps {
    fn new(
        object: &Object,
        mac: [u8; 6],
        ports: Option<&Arc<EgressPorts>>,
    ) -> Result<Self, BpfError> {
        let maps = Self {
            sockets: object.create("wl_sockets")?,
            station: object.create(".data.station")?,
            vlans: object.create("wl_vlans")?,
            local: Local::new(object)?,
            left_v4: object.create("wl_left_v4")?,
            left_v6: object.create("wl_left_v6")?,
            routes_v4: object.create("wl_routes_v4")?,
            routes_v6: object.create("wl_routes_v6")?,
            counters: Arc::new(object.create("wl_verdicts")?),
            forward: ports.map(|ports| ForwardMaps::new(ports, object)).transpose()?,
        };
        Station { mac, longest: u16::MAX, guarded: false, leaves: 0 }.write(&maps.station)?;
        Ok(maps)
    }
}
