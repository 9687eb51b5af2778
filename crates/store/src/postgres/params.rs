//! Parameters of statements, with the types they have in SQL, so that nothing has to be prepared.

use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

/// A value and its type.
pub(super) struct Param<'a> {
    pub(super) value: &'a (dyn ToSql + Sync),
    pub(super) kind: Type,
}

/// A Rust type that has one type in SQL.
pub(super) trait Typed: ToSql + Sync {
    /// The type of one value.
    const ONE: Type;
    /// The type of an array of values.
    const MANY: Type;
}

macro_rules! typed {
    ($($rust:ty: $one:ident, $many:ident;)*) => {$(
        impl Typed for $rust {
            const ONE: Type = Type::$one;
            const MANY: Type = Type::$many;
        }
    )*};
}
typed! {
    bool: BOOL, BOOL_ARRAY;
    i16: INT2, INT2_ARRAY;
    i32: INT4, INT4_ARRAY;
    i64: INT8, INT8_ARRAY;
    f64: FLOAT8, FLOAT8_ARRAY;
    &str: TEXT, TEXT_ARRAY;
    String: TEXT, TEXT_ARRAY;
    &[u8]: BYTEA, BYTEA_ARRAY;
    Uuid: UUID, UUID_ARRAY;
}

impl<T: Typed> Typed for Option<T> {
    const ONE: Type = T::ONE;
    const MANY: Type = T::MANY;
}

impl<T: Typed> Typed for &T {
    const ONE: Type = T::ONE;
    const MANY: Type = T::MANY;
}

impl<T: Typed> Typed for Vec<T> {
    const ONE: Type = T::MANY;
    const MANY: Type = T::MANY;
}

/// Makes a parameter of a value.
pub(super) fn param<T: Typed>(value: &T) -> Param<'_> {
    Param { value, kind: T::ONE }
}

/// The parameters of a statement, in order.
macro_rules! params {
    ($($value:expr),* $(,)?) => { &[$($crate::postgres::params::param(&$value)),*] };
}
pub(super) use params;
