//! An edit of the catalogue and its bytes, described in `docs/format/catalogue.md`.

use std::sync::Arc;

use weir_journal::Entry;
use weir_model::engine::EngineKind;
use weir_model::{Databases, TenantId, TenantName, varint};

use weir_admission::policy::share::{Delay, ShareTerms};
use weir_admission::{OnLimit, UnitLimits};

use super::stamp::Stamp;
use super::users::{put_secret, put_users, take_secret, take_users};
use crate::log_kind::LogKind;
use crate::tenant::{PARTITIONS_MAX, TenantSettings};

const NEXT_TENANT: u8 = 1;
const NEXT_PARTITION: u8 = 2;
const PUT: u8 = 3;
const DROP: u8 = 4;
const USED: u8 = 5;
const STAMP: u8 = 6;
const CONFIRMED: u8 = 7;
const IDENTITY: u8 = 8;
const CONDEMNED: u8 = 9;
const REMOVED: u8 = 10;
const PUT_WITH_ENGINE: u8 = 11;
const PUT_WITH_UNITS: u8 = 12;
const PUT_WITH_USERS: u8 = 13;
const PUT_WITH_DATABASES: u8 = 14;
const PUT_WITH_TERMS: u8 = 15;
const PUT_WITH_LOG: u8 = 16;

/// A tenant as the catalogue has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Its number.
    pub id: TenantId,
    /// Its name.
    pub name: TenantName,
    /// The numbers of its partitions, in the order of their hash slots.
    pub partitions: Vec<u32>,
    /// The engine in which they keep their rows.
    pub engine: EngineKind,
    /// Where they write their logs.
    pub log: LogKind,
    /// Under which number each of its databases is stored.
    pub databases: Databases,
    /// Everything else.
    pub settings: TenantSettings,
}

/// Changes of the catalogue that become durable together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CatalogueEdit {
    /// Which edit this is.
    pub stamp: Stamp,
    /// In the first copy: the last edit that was known to be durable in the mirror when this one was written. `None` in
    /// the mirror.
    pub confirmed: Option<Stamp>,
    /// Drawn when the directory was made; the first edit of a file repeats it.
    pub identity: Option<u64>,
    /// First tenant number never used.
    pub next_tenant: Option<u32>,
    /// First partition number never used.
    pub next_partition: Option<u32>,
    /// Tenants that are new or changed.
    pub put: Vec<Listing>,
    /// Tenants that are gone.
    pub dropped: Vec<TenantId>,
    /// Partitions that have their files from now on: if these are missing, they are lost.
    pub used: Vec<u32>,
    /// Partitions whose directories are to be removed, if they are there. What tenants give up is condemned without
    /// being listed here.
    pub condemned: Vec<u32>,
    /// Condemned partitions whose directories are gone for good.
    pub removed: Vec<u32>,
}

impl Entry for CatalogueEdit {
    const MAGIC: &[u8; 8] = b"WEIRCATA";
    const PREFIX: &str = "CATALOGUE-";

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_stamp(&mut out, STAMP, self.stamp);
        if let Some(confirmed) = self.confirmed {
            put_stamp(&mut out, CONFIRMED, confirmed);
        }
        if let Some(identity) = self.identity {
            out.push(IDENTITY);
            out.extend_from_slice(&identity.to_le_bytes());
        }
        let mut number = |tag: u8, value: u32| {
            out.push(tag);
            varint::put(&mut out, value.into());
        };
        self.next_tenant.iter().for_each(|&value| number(NEXT_TENANT, value));
        self.next_partition.iter().for_each(|&value| number(NEXT_PARTITION, value));
        self.dropped.iter().for_each(|id| number(DROP, id.0));
        self.used.iter().for_each(|&partition| number(USED, partition));
        self.condemned.iter().for_each(|&partition| number(CONDEMNED, partition));
        self.removed.iter().for_each(|&partition| number(REMOVED, partition));
        for listing in &self.put {
            // Versions that know only one engine, or no request units, users, swapped databases, terms of shares or
            // shared log, refuse what they would misread, and read everything else.
            let (is_plain, has_units) = (has_plain_engine(listing), has_request_units(listing));
            let (has_users, has_databases) = (!listing.settings.users.is_empty(), has_databases(listing));
            let tag = match (has_databases, has_users, has_units, is_plain) {
                _ if listing.log != LogKind::Own => PUT_WITH_LOG,
                _ if has_terms(listing) => PUT_WITH_TERMS,
                (true, ..) => PUT_WITH_DATABASES,
                (false, true, ..) => PUT_WITH_USERS,
                (false, false, true, _) => PUT_WITH_UNITS,
                (false, false, false, true) => PUT,
                (false, false, false, false) => PUT_WITH_ENGINE,
            };
            out.push(tag);
            put_listing(&mut out, listing);
            if tag != PUT {
                put_engine(&mut out, listing);
            }
            if tag >= PUT_WITH_UNITS {
                put_request_units(&mut out, listing);
            }
            if tag >= PUT_WITH_USERS {
                put_users(&mut out, &listing.settings.users);
            }
            if tag >= PUT_WITH_DATABASES {
                put_databases(&mut out, listing);
            }
            if tag >= PUT_WITH_TERMS {
                put_terms(&mut out, listing);
            }
            if tag >= PUT_WITH_LOG {
                put_log(&mut out, listing);
            }
        }
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, usize> {
        let mut rest = bytes;
        let mut edit = Self::default();
        let mut stamp = None;
        while let Some((&tag, after)) = rest.split_first() {
            let at = bytes.len() - rest.len();
            rest = after;
            let known = match tag {
                NEXT_TENANT => take(&mut rest).map(|value| edit.next_tenant = Some(value)),
                NEXT_PARTITION => take(&mut rest).map(|value| edit.next_partition = Some(value)),
                PUT => take_listing(&mut rest).map(|listing| edit.put.push(listing)),
                PUT_WITH_ENGINE => take_listing(&mut rest)
                    .and_then(|listing| take_engine(&mut rest, listing))
                    .map(|listing| edit.put.push(listing)),
                PUT_WITH_UNITS => take_listing(&mut rest)
                    .and_then(|listing| take_engine(&mut rest, listing))
                    .and_then(|listing| take_request_units(&mut rest, listing))
                    .map(|listing| edit.put.push(listing)),
                PUT_WITH_USERS | PUT_WITH_DATABASES | PUT_WITH_TERMS | PUT_WITH_LOG => take_listing(&mut rest)
                    .and_then(|listing| take_engine(&mut rest, listing))
                    .and_then(|listing| take_request_units(&mut rest, listing))
                    .and_then(|mut listing| {
                        listing.settings.users = take_users(&mut rest)?.into();
                        if tag >= PUT_WITH_DATABASES {
                            listing = take_databases(&mut rest, listing)?;
                        }
                        if tag >= PUT_WITH_TERMS {
                            listing = take_terms(&mut rest, listing)?;
                        }
                        if tag >= PUT_WITH_LOG { take_log(&mut rest, listing) } else { Some(listing) }
                    })
                    .map(|listing| edit.put.push(listing)),
                DROP => take(&mut rest).map(|id| edit.dropped.push(TenantId(id))),
                USED => take(&mut rest).map(|partition| edit.used.push(partition)),
                STAMP => take_stamp(&mut rest).map(|value| stamp = Some(value)),
                CONFIRMED => take_stamp(&mut rest).map(|value| edit.confirmed = Some(value)),
                IDENTITY => take_fixed(&mut rest).map(|value| edit.identity = Some(value)),
                CONDEMNED => take(&mut rest).map(|partition| edit.condemned.push(partition)),
                REMOVED => take(&mut rest).map(|partition| edit.removed.push(partition)),
                _ => None,
            };
            known.ok_or(at)?;
        }
        // Written by a version that did not stamp edits.
        edit.stamp = stamp.ok_or(bytes.len())?;
        Ok(edit)
    }
}

fn put_stamp(out: &mut Vec<u8>, tag: u8, stamp: Stamp) {
    out.push(tag);
    varint::put(out, stamp.epoch);
    out.extend_from_slice(&stamp.nonce.to_le_bytes());
}

fn take_stamp(rest: &mut &[u8]) -> Option<Stamp> {
    Some(Stamp { epoch: varint::take(rest)?, nonce: take_fixed(rest)? })
}

fn take_fixed(rest: &mut &[u8]) -> Option<u64> {
    let (bytes, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u64::from_le_bytes(*bytes))
}

/// Appends `listing`, except for its engine; a backup begins with a listing, too.
pub(crate) fn put_listing(out: &mut Vec<u8>, listing: &Listing) {
    let TenantSettings {
        secret,
        limits,
        connections_max,
        disk_bytes_max,
        memory_bytes_max: _,
        terms: _,
        suspended,
        users: _,
    } = &listing.settings;
    varint::put(out, listing.id.0.into());
    varint::put(out, listing.name.as_str().len() as u64);
    out.extend_from_slice(listing.name.as_str().as_bytes());
    varint::put(out, listing.partitions.len() as u64);
    listing.partitions.iter().for_each(|&number| varint::put(out, number.into()));
    put_secret(out, secret.as_ref());
    varint::put(out, limits.rcu);
    varint::put(out, limits.wcu);
    varint::put(out, limits.burst_seconds.into());
    // 0 = refuse, else the longest delay plus one.
    let on_limit = match limits.on_limit {
        OnLimit::Refuse => 0,
        OnLimit::Delay { max_ms } => u64::from(max_ms) + 1,
    };
    varint::put(out, on_limit);
    varint::put(out, (*connections_max).into());
    varint::put(out, *disk_bytes_max);
    out.push((*suspended).into());
}

fn take<T: TryFrom<u64>>(rest: &mut &[u8]) -> Option<T> {
    T::try_from(varint::take(rest)?).ok()
}

/// Takes what [`put_listing`] has appended; `None` if the bytes are no listing.
pub(crate) fn take_listing(rest: &mut &[u8]) -> Option<Listing> {
    let id = TenantId(take(rest)?);
    let name = TenantName::new(std::str::from_utf8(varint::take_slice(rest)?).ok()?).ok()?;
    let count = take::<u16>(rest).filter(|count| (1..=PARTITIONS_MAX).contains(count))?;
    let partitions = (0..count).map(|_| take(rest)).collect::<Option<Vec<u32>>>()?;
    let secret = take_secret(rest)?;
    let (rcu, wcu, burst_seconds) = (take(rest)?, take(rest)?, take(rest)?);
    let on_limit = match take::<u64>(rest)? {
        0 => OnLimit::Refuse,
        more => OnLimit::Delay { max_ms: u32::try_from(more - 1).ok()? },
    };
    let limits = UnitLimits { rcu, wcu, ru: 0, spare: false, burst_seconds, on_limit };
    let (connections_max, disk_bytes_max) = (take(rest)?, take(rest)?);
    let (&suspended, after) = rest.split_first().filter(|(byte, _)| **byte <= 1)?;
    *rest = after;
    let settings = TenantSettings {
        secret,
        limits,
        connections_max,
        disk_bytes_max,
        memory_bytes_max: 0,
        terms: ShareTerms::default(),
        suspended: suspended == 1,
        users: Arc::default(),
    };
    let (engine, log, databases) = (EngineKind::Lsm, LogKind::Own, Databases::AS_NAMED);
    Some(Listing { id, name, partitions, engine, log, databases, settings })
}

/// Whether `listing` needs no entry for its engine.
pub(crate) fn has_plain_engine(listing: &Listing) -> bool {
    listing.engine == EngineKind::Lsm && listing.settings.memory_bytes_max == 0
}

/// Appends the engine, which [`put_listing`] leaves out.
pub(crate) fn put_engine(out: &mut Vec<u8>, listing: &Listing) {
    out.push(match listing.engine {
        EngineKind::Lsm => 0,
        EngineKind::Memory => 1,
        EngineKind::SpLsm => 2,
    });
    varint::put(out, listing.settings.memory_bytes_max);
}

/// `listing` with what [`put_engine`] has appended; `None` if the bytes are not that.
pub(crate) fn take_engine(rest: &mut &[u8], mut listing: Listing) -> Option<Listing> {
    listing.engine = match take::<u8>(rest)? {
        0 => EngineKind::Lsm,
        1 => EngineKind::Memory,
        2 => EngineKind::SpLsm,
        _ => return None,
    };
    listing.settings.memory_bytes_max = take(rest)?;
    Some(listing)
}

/// Whether `listing` needs an entry for its request units.
pub(crate) fn has_request_units(listing: &Listing) -> bool {
    listing.settings.limits.ru > 0 || listing.settings.limits.spare
}

/// Appends the request units, which [`put_engine`] leaves out, too.
pub(crate) fn put_request_units(out: &mut Vec<u8>, listing: &Listing) {
    varint::put(out, listing.settings.limits.ru);
    out.push(listing.settings.limits.spare.into());
}

/// `listing` with what [`put_request_units`] has appended; `None` if the bytes are not that.
pub(crate) fn take_request_units(rest: &mut &[u8], mut listing: Listing) -> Option<Listing> {
    listing.settings.limits.ru = take(rest)?;
    let (&spare, after) = rest.split_first().filter(|(byte, _)| **byte <= 1)?;
    *rest = after;
    listing.settings.limits.spare = spare == 1;
    Some(listing)
}

/// Whether `listing` needs an entry for its databases, because some were swapped.
pub(crate) fn has_databases(listing: &Listing) -> bool {
    listing.databases != Databases::AS_NAMED
}

/// Appends under which number each database of `listing` is stored.
pub(crate) fn put_databases(out: &mut Vec<u8>, listing: &Listing) {
    out.extend_from_slice(&listing.databases.bits().to_le_bytes());
}

/// `listing` with what [`put_databases`] has appended; `None` if the bytes are not that.
pub(crate) fn take_databases(rest: &mut &[u8], mut listing: Listing) -> Option<Listing> {
    listing.databases = Databases::from_bits(take_fixed(rest)?)?;
    Some(listing)
}

/// Whether `listing` needs an entry for its shares.
pub(crate) fn has_terms(listing: &Listing) -> bool {
    listing.settings.terms != ShareTerms::default()
}

/// Appends what `listing` says of its shares.
pub(crate) fn put_terms(out: &mut Vec<u8>, listing: &Listing) {
    let ShareTerms { weight, delay } = listing.settings.terms;
    varint::put(out, weight.into());
    // 0 = the node's delay, 1 = an endless one, else milliseconds plus two.
    let delay = match delay {
        Delay::OfNode => 0,
        Delay::Endless => 1,
        Delay::Ms(ms) => u64::from(ms) + 2,
    };
    varint::put(out, delay);
}

/// `listing` with what [`put_terms`] has appended; `None` if the bytes are not that.
pub(crate) fn take_terms(rest: &mut &[u8], mut listing: Listing) -> Option<Listing> {
    let weight = take(rest)?;
    let delay = match take::<u64>(rest)? {
        0 => Delay::OfNode,
        1 => Delay::Endless,
        more => Delay::Ms(u32::try_from(more - 2).ok()?),
    };
    listing.settings.terms = Some(ShareTerms { weight, delay }).filter(|terms| terms.problem().is_none())?;
    Some(listing)
}

/// Appends where the partitions of `listing` write their logs.
pub(crate) fn put_log(out: &mut Vec<u8>, listing: &Listing) {
    out.push(match listing.log {
        LogKind::Own => 0,
        LogKind::Shared => 1,
    });
}

/// `listing` with what [`put_log`] has appended; `None` if the bytes are not that.
pub(crate) fn take_log(rest: &mut &[u8], mut listing: Listing) -> Option<Listing> {
    let (&log, after) = rest.split_first()?;
    *rest = after;
    listing.log = match log {
        0 => LogKind::Own,
        1 => LogKind::Shared,
        _ => return None,
    };
    Some(listing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tenant::{StoredSecret, StoredUser};
    use proptest::prelude::*;

    fn listing() -> impl Strategy<Value = Listing> {
        let settings = (
            proptest::option::of(proptest::collection::vec(any::<u8>(), 0..64)),
            (
                any::<(u64, u64)>(),
                (prop_oneof![Just(0), any::<u64>()], any::<bool>()),
                any::<u32>(),
                proptest::option::of(any::<u32>()),
            ),
            (any::<u32>(), any::<u64>(), any::<bool>()),
            (0_usize..2, prop_oneof![Just(0), any::<u64>()], terms(), 0..LogKind::ALL.len()),
        );
        let partitions = proptest::collection::vec(any::<u32>(), 1..8);
        let swaps = proptest::collection::vec((0..16_u8, 0..16_u8), 0..4);
        let parts = (any::<u32>(), "[a-z0-9][a-z0-9_-]{0,62}", partitions, settings, users(), swaps);
        parts.prop_map(|(id, name, partitions, settings, users, swaps)| {
            let (secret, limits, (connections_max, disk_bytes_max, suspended), more) = settings;
            let (engine, memory_bytes_max, terms, log) = more;
            let ((rcu, wcu), (ru, spare), burst_seconds, delay) = limits;
            let on_limit = delay.map_or(OnLimit::Refuse, |max_ms| OnLimit::Delay { max_ms });
            let limits = UnitLimits { rcu, wcu, ru, spare, burst_seconds, on_limit };
            let secret = secret.map(StoredSecret::new);
            let settings = TenantSettings {
                secret,
                limits,
                connections_max,
                disk_bytes_max,
                memory_bytes_max,
                terms,
                suspended,
                users,
            };
            let name = TenantName::new(&name).expect("of the pattern");
            let swap = |databases: Databases, (one, other)| databases.swapped(one, other);
            let databases = swaps.into_iter().fold(Databases::AS_NAMED, swap);
            let (engine, log) = (EngineKind::ALL[engine], LogKind::ALL[log]);
            Listing { id: TenantId(id), name, partitions, engine, log, databases, settings }
        })
    }

    fn terms() -> impl Strategy<Value = ShareTerms> {
        let delay = prop_oneof![Just(Delay::OfNode), Just(Delay::Endless), (0..=Delay::MS_MAX).prop_map(Delay::Ms)];
        let own = (1..=ShareTerms::WEIGHT_MAX, delay).prop_map(|(weight, delay)| ShareTerms { weight, delay });
        prop_oneof![Just(ShareTerms::default()), own]
    }

    /// A tenant with terms, from its tag on.
    fn with_terms(terms: ShareTerms) -> Vec<u8> {
        put(terms, LogKind::Own)
    }

    /// A tenant with terms and such a log, from its tag on.
    fn put(terms: ShareTerms, log: LogKind) -> Vec<u8> {
        let settings = TenantSettings { terms, ..TenantSettings::default() };
        let (name, databases) = (TenantName::built_in(), Databases::AS_NAMED);
        let (id, partitions, engine) = (TenantId(7), vec![3], EngineKind::Lsm);
        let listing = Listing { id, name, partitions, engine, log, databases, settings };
        let edit = CatalogueEdit { put: vec![listing], ..CatalogueEdit::default() };
        let stamp = CatalogueEdit::default().encode().len();
        edit.encode().split_off(stamp)
    }

    #[test]
    fn terms_are_where_the_page_says() {
        let (plain, own) =
            (with_terms(ShareTerms::default()), with_terms(ShareTerms { weight: 300, delay: Delay::Ms(0) }));
        assert_eq!(plain[0], PUT, "what nobody says is written as it always was");
        // A tree, no limit of memory or request units, no users, databases as they are named; then 300 and 0 + 2.
        let databases = Databases::AS_NAMED.bits().to_le_bytes();
        let behind = [&[0, 0, 0, 0, 0][..], &databases, &[0xac, 0x02, 2]].concat();
        assert_eq!(own, [&[PUT_WITH_TERMS][..], &plain[1..], &behind].concat());
        let endless = with_terms(ShareTerms { weight: 1, delay: Delay::Endless });
        assert_eq!(endless[endless.len() - 2..], [1, 1]);
    }

    #[test]
    fn a_shared_log_is_said_behind_the_terms_and_one_of_its_own_is_not() {
        let terms = ShareTerms { weight: 300, delay: Delay::Ms(0) };
        let (own, shared) = (put(terms, LogKind::Own), put(terms, LogKind::Shared));
        assert_eq!(shared, [&[PUT_WITH_LOG][..], &own[1..], &[1]].concat());
        let start = CatalogueEdit::default().encode();
        let unknown = [&start[..], &shared[..shared.len() - 1], &[2]].concat();
        assert!(CatalogueEdit::decode(&unknown).is_err(), "a log that this version does not know");
    }

    #[test]
    fn terms_that_cannot_be_do_not_decode() {
        let start = CatalogueEdit::default().encode();
        let fine = with_terms(ShareTerms { weight: 1000, delay: Delay::Ms(Delay::MS_MAX) });
        let decodes = |tenant: &[u8]| CatalogueEdit::decode(&[&start[..], tenant].concat()).is_ok();
        assert!(decodes(&fine));
        let (weight, ms) = ([0xe8, 0x07], [0x82, 0xdd, 0xdb, 0x01]);
        assert_eq!(fine[fine.len() - 6..], [&weight[..], &ms].concat());
        let before = &fine[..fine.len() - 6];
        let too_much: [(&[u8], &[u8]); 3] = [(&[0], &ms), (&[0xe9, 0x07], &ms), (&weight, &[0x83, 0xdd, 0xdb, 0x01])];
        for (weight, ms) in too_much {
            assert!(!decodes(&[before, weight, ms].concat()), "{weight:?} {ms:?}");
        }
    }

    fn users() -> impl Strategy<Value = Arc<[StoredUser]>> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..8);
        let secret = proptest::option::of(bytes());
        let users = proptest::collection::btree_map(bytes(), (proptest::collection::vec(bytes(), 0..4), secret), 0..4);
        users.prop_map(|users| {
            let users = users.into_iter().map(|(name, (rules, secret))| StoredUser {
                name: name.into(),
                rules: rules.into_iter().map(Into::into).collect(),
                secret: secret.map(StoredSecret::new),
            });
            users.collect()
        })
    }

    fn stamp() -> impl Strategy<Value = Stamp> {
        (any::<u64>(), any::<u64>()).prop_map(|(epoch, nonce)| Stamp { epoch, nonce })
    }

    proptest! {
        #[test]
        fn an_edit_decodes_to_itself(
            (stamp, confirmed, identity) in (stamp(), proptest::option::of(stamp()), any::<Option<u64>>()),
            put in proptest::collection::vec(listing(), 0..4),
            dropped: Vec<u32>,
            (used, condemned, removed) in any::<(Vec<u32>, Vec<u32>, Vec<u32>)>(),
            next_tenant: Option<u32>,
            next_partition: Option<u32>,
        ) {
            let dropped = dropped.into_iter().map(TenantId).collect();
            let edit = CatalogueEdit {
                stamp, confirmed, identity, next_tenant, next_partition, put, dropped, used, condemned, removed,
            };
            prop_assert_eq!(CatalogueEdit::decode(&edit.encode()), Ok(edit));
        }

        #[test]
        fn any_bytes_decode_or_are_refused_without_a_panic(bytes: Vec<u8>) {
            let _ = CatalogueEdit::decode(&bytes);
        }
    }
}
