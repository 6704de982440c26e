//! An assembler for BPF instructions, with labels.
//!
//! An instruction has 64 bits: operation (8), destination and source register (4 each),
//! offset (16), immediate (32); RFC 9669, section 3. Only what our programs use is here.

use rustix::fd::{AsRawFd, BorrowedFd};

/// A register. `R0` returns results, `R1` to `R5` pass arguments and are lost by a call,
/// `R6` to `R9` survive it, `R10` is the top of the stack (512 bytes, growing down).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
#[repr(u8)]
pub enum Register {
    R0 = 0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// Width of a memory access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Size {
    /// 8 bits.
    Byte = 0x10,
    /// 16 bits.
    Half = 0x08,
    /// 32 bits.
    Word = 0x00,
    /// 64 bits.
    Double = 0x18,
}

/// When a jump is taken; comparisons are unsigned and of 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Condition {
    /// Left equals right.
    Equal = 0x10,
    /// Left is greater than right.
    Greater = 0x20,
    /// Left is greater than right or equal.
    GreaterOrEqual = 0x30,
    /// Left and right have a bit in common.
    AnyBit = 0x40,
    /// Left differs from right.
    NotEqual = 0x50,
    /// Left is less than right or equal.
    LessOrEqual = 0xb0,
}

/// A place in the program that jumps go to; may be placed after they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label(usize);

/// Numbers of the kernel's helper functions (`enum bpf_func_id`).
pub mod helper {
    /// `bpf_map_lookup_elem(map, key) -> *value or null`
    pub const MAP_LOOKUP: i32 = 1;
    /// `bpf_map_delete_elem(map, key) -> 0 or error`
    pub const MAP_DELETE: i32 = 3;
    /// `bpf_ktime_get_ns() -> time since the start of the machine`
    pub const KTIME_GET_NS: i32 = 5;
    /// `bpf_redirect(ifindex, flags) -> action`
    pub const REDIRECT: i32 = 23;
    /// `bpf_get_hash_recalc(skb) -> flow hash`
    pub const GET_HASH_RECALC: i32 = 34;
    /// `bpf_redirect_map(map, key, action when absent) -> action`
    pub const REDIRECT_MAP: i32 = 51;
    /// `bpf_xdp_adjust_tail(context, bytes more) -> 0 or error`
    pub const XDP_ADJUST_TAIL: i32 = 65;
    /// `bpf_fib_lookup(context, parameters, their size, flags) -> BPF_FIB_LKUP_RET_*`
    pub const FIB_LOOKUP: i32 = 69;
    /// `bpf_probe_read_kernel(to, size, from) -> 0 or error`
    pub const PROBE_READ_KERNEL: i32 = 113;
}

const ALU64: u8 = 0x07;
const JUMP: u8 = 0x05;
const SOURCE_REGISTER: u8 = 0x08;
const MODE_MEMORY: u8 = 0x60;
const CLASS_LOAD: u8 = 0x01;
const CLASS_STORE_IMMEDIATE: u8 = 0x02;
const CLASS_STORE: u8 = 0x03;
const LOAD_IMMEDIATE_64: u8 = 0x18;
const PSEUDO_MAP_FD: u8 = 1;
const PSEUDO_MAP_VALUE: u8 = 2;

/// A program being written.
#[derive(Debug, Default)]
pub struct Assembler {
    instructions: Vec<u64>,
    /// Where each label was placed.
    labels: Vec<Option<usize>>,
    /// Jumps and the labels that they go to.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    /// An empty program.
    pub fn new() -> Self {
        Self::default()
    }

    fn emit(&mut self, operation: u8, to: Register, from: u8, offset: i16, immediate: i32) {
        let registers = from << 4 | to as u8;
        // Bit patterns, not values: signed fields are stored as they are.
        self.instructions.push(
            u64::from(operation)
                | u64::from(registers) << 8
                | u64::from(offset as u16) << 16
                | u64::from(immediate as u32) << 32,
        );
    }

    /// A label that is not placed yet.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Places a label here.
    ///
    /// # Panics
    /// When it was placed before: a mistake in the program's source.
    pub fn place(&mut self, label: Label) {
        let place = self.labels[label.0].replace(self.instructions.len());
        assert!(place.is_none(), "a label was placed twice");
    }

    /// `to = from`
    pub fn copy(&mut self, to: Register, from: Register) {
        self.emit(ALU64 | 0xb0 | SOURCE_REGISTER, to, from as u8, 0, 0);
    }

    /// `to = value`, sign-extended
    pub fn set(&mut self, to: Register, value: i32) {
        self.emit(ALU64 | 0xb0, to, 0, 0, value);
    }

    /// `to = value`
    pub fn set_64(&mut self, to: Register, value: u64) {
        self.emit(LOAD_IMMEDIATE_64, to, 0, 0, value as u32 as i32);
        self.emit(0, Register::R0, 0, 0, (value >> 32) as u32 as i32);
    }

    /// `to = to + value`
    pub fn add(&mut self, to: Register, value: i32) {
        self.emit(ALU64, to, 0, 0, value);
    }

    /// `to = to + from`
    pub fn add_register(&mut self, to: Register, from: Register) {
        self.emit(ALU64 | SOURCE_REGISTER, to, from as u8, 0, 0);
    }

    /// `to = to - from`
    pub fn subtract_register(&mut self, to: Register, from: Register) {
        self.emit(ALU64 | 0x10 | SOURCE_REGISTER, to, from as u8, 0, 0);
    }

    /// `to = to >> bits`, zeros moving in
    pub fn shift_right(&mut self, to: Register, bits: i32) {
        self.emit(ALU64 | 0x70, to, 0, 0, bits);
    }

    /// `to = to & value`, the value sign-extended
    pub fn and(&mut self, to: Register, value: i32) {
        self.emit(ALU64 | 0x50, to, 0, 0, value);
    }

    /// `to = to | from`
    pub fn or_register(&mut self, to: Register, from: Register) {
        self.emit(ALU64 | 0x40 | SOURCE_REGISTER, to, from as u8, 0, 0);
    }

    /// `to =` the big-endian number of 16, 32 or 64 `bits` in `to`, zero-extended
    pub fn from_big_endian(&mut self, to: Register, bits: i32) {
        // "Convert between host and big endian" (class ALU, operation 0xd0, source 1).
        self.emit(0xdc, to, 0, 0, bits);
    }

    /// `to = memory[base + offset]`, zero-extended
    pub fn load(&mut self, size: Size, to: Register, base: Register, offset: i16) {
        self.emit(CLASS_LOAD | MODE_MEMORY | size as u8, to, base as u8, offset, 0);
    }

    /// `memory[base + offset] = from`
    pub fn store(&mut self, size: Size, base: Register, offset: i16, from: Register) {
        self.emit(CLASS_STORE | MODE_MEMORY | size as u8, base, from as u8, offset, 0);
    }

    /// `memory[base + offset] = value`
    pub fn store_value(&mut self, size: Size, base: Register, offset: i16, value: i32) {
        self.emit(CLASS_STORE_IMMEDIATE | MODE_MEMORY | size as u8, base, 0, offset, value);
    }

    /// `to =` a reference to the map, as the helpers take it
    pub fn map(&mut self, to: Register, map: BorrowedFd<'_>) {
        self.emit(LOAD_IMMEDIATE_64, to, PSEUDO_MAP_FD, 0, map.as_raw_fd());
        self.emit(0, Register::R0, 0, 0, 0);
    }

    /// `to =` address of the first value of an array map (Linux 5.2)
    pub fn map_value(&mut self, to: Register, map: BorrowedFd<'_>) {
        self.emit(LOAD_IMMEDIATE_64, to, PSEUDO_MAP_VALUE, 0, map.as_raw_fd());
        self.emit(0, Register::R0, 0, 0, 0);
    }

    /// Calls a [`helper`].
    pub fn call(&mut self, function: i32) {
        self.emit(JUMP | 0x80, Register::R0, 0, 0, function);
    }

    /// Returns `R0`.
    pub fn exit(&mut self) {
        self.emit(JUMP | 0x90, Register::R0, 0, 0, 0);
    }

    /// Jumps always.
    pub fn jump(&mut self, to: Label) {
        self.jumps.push((self.instructions.len(), to));
        self.emit(JUMP, Register::R0, 0, 0, 0);
    }

    /// Jumps if `left condition value`, the value sign-extended.
    pub fn jump_if(&mut self, left: Register, condition: Condition, value: i32, to: Label) {
        self.jumps.push((self.instructions.len(), to));
        self.emit(JUMP | condition as u8, left, 0, 0, value);
    }

    /// Jumps if `left condition right`.
    pub fn jump_if_register(
        &mut self,
        left: Register,
        condition: Condition,
        right: Register,
        to: Label,
    ) {
        self.jumps.push((self.instructions.len(), to));
        self.emit(JUMP | condition as u8 | SOURCE_REGISTER, left, right as u8, 0, 0);
    }

    /// The finished program.
    ///
    /// # Panics
    /// When a jump goes to a label that was not placed, or too far: a mistake in the
    /// program's source.
    pub fn finish(mut self) -> Vec<u64> {
        for (at, label) in self.jumps {
            let target = self.labels[label.0].expect("every label is placed");
            // Counted from the instruction after the jump.
            let distance = target as i64 - at as i64 - 1;
            let distance = i16::try_from(distance).expect("programs are short");
            self.instructions[at] |= u64::from(distance as u16) << 16;
        }
        self.instructions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Register::{R0, R1, R2, R6, R10};

    fn fields(instruction: u64) -> (u8, u8, u8, i16, i32) {
        let registers = (instruction >> 8) as u8;
        (
            instruction as u8,
            registers & 15,
            registers >> 4,
            (instruction >> 16) as i16,
            (instruction >> 32) as i32,
        )
    }

    #[test]
    fn instructions_have_the_published_encoding() {
        let mut a = Assembler::new();
        a.copy(R6, R1);
        a.set(R0, -2);
        a.add(R2, 14);
        a.load(Size::Word, R2, R1, 4);
        a.store(Size::Double, R10, -8, R2);
        a.call(helper::MAP_LOOKUP);
        a.exit();
        let fields: Vec<_> = a.finish().into_iter().map(fields).collect();
        // Operation codes as in RFC 9669, sections 4 and 5.
        assert_eq!(
            fields,
            [
                (0xbf, 6, 1, 0, 0),
                (0xb7, 0, 0, 0, -2),
                (0x07, 2, 0, 0, 14),
                (0x61, 2, 1, 4, 0),
                (0x7b, 10, 2, -8, 0),
                (0x85, 0, 0, 0, 1),
                (0x95, 0, 0, 0, 0),
            ]
        );
    }

    #[test]
    fn jumps_reach_labels_ahead_and_behind() {
        let mut a = Assembler::new();
        let (start, end) = (a.label(), a.label());
        a.place(start);
        a.jump_if(R1, Condition::Equal, 7, end);
        a.set_64(R2, 0x1122_3344_5566_7788);
        a.jump(start);
        a.place(end);
        a.exit();
        let program = a.finish();
        assert_eq!(fields(program[0]), (0x15, 1, 0, 3, 7));
        assert_eq!(fields(program[1]).4, 0x5566_7788);
        assert_eq!(fields(program[2]).4, 0x1122_3344);
        assert_eq!(fields(program[3]), (0x05, 0, 0, -4, 0));
    }

    #[test]
    #[should_panic(expected = "every label is placed")]
    fn a_jump_to_nowhere_is_a_mistake() {
        let mut a = Assembler::new();
        let nowhere = a.label();
        a.jump(nowhere);
        a.finish();
    }
}
