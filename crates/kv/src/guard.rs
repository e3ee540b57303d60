//! What the policy of a store allows, table by table, through every door.
//!
//! Rules name tables, and requests have their numbers: what a principal may do is put together once, by
//! number, and again when the policy has changed.

use std::collections::HashMap;
use std::path::Path;

use farcall::Service;
use farcall::policy::{Object, PolicyFile, PolicyFileError, Principal, Right, Rights};
use farcall::said::{Kind, Level};
use farcall_base::printable;

use crate::TableId;
use crate::store::Store;
use crate::wire::{
    ADD_CLIENT, CREATE_TABLE, CREATE_TABLE_AT, CreateTableRequest, DELETE, DROP_TABLE, GET, GET_PART,
    INCREMENT, MULTI_GET, MULTI_PUT, MultiGetRequest, MultiPutRequest, ONCE, OnceRequest, PUT, PUT_PART,
    SCAN, SLOT_MAP, STATISTICS, TURN_OBJECTS_MAX,
};

/// What is said of clients that are refused.
static REFUSED: Kind = Kind::new(Level::Warning, "refusals by the policy of the store");

/// The most principals whose rights are stored; beyond, all are put together again.
const PRINCIPALS_MAX: usize = 1024;

/// What a principal may do.
#[derive(Debug, Default)]
struct TableRights {
    every: Rights,
    named: HashMap<TableId, Rights>,
    /// With any table.
    any: Rights,
    /// Whether it may administer the store.
    administers: bool,
}

impl TableRights {
    fn of(file: &PolicyFile, principal: &Principal) -> Self {
        let mut this = Self::default();
        for (name, rights) in file.policy().tables_of(principal) {
            this.any = this.any.and(rights);
            match name.map(TableId::of) {
                None => this.every = this.every.and(rights),
                Some(Ok(table)) => {
                    let of_table = this.named.entry(table).or_default();
                    *of_table = of_table.and(rights);
                }
                // No table has such a name.
                Some(Err(_)) => {}
            }
        }
        this.administers = file.policy().allows(principal, &Object::Store, Right::Administer).is_some();
        this
    }

    fn have(&self, need: Need) -> bool {
        match need {
            Need::Nothing => true,
            Need::On(table, right) => {
                self.every.has(right) || self.named.get(&table).is_some_and(|rights| rights.has(right))
            }
            Need::OnAny(right) => self.any.has(right),
            Need::Anything => self.any != Rights::NONE || self.administers,
            Need::Store => self.administers,
        }
    }
}

/// What a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing.
    Nothing,
    /// To do that with that table.
    On(TableId, Right),
    /// To do that with some table.
    OnAny(Right),
    /// To do anything at all.
    Anything,
    /// To administer the store.
    Store,
}

/// The policy of a store, and what it means to those that use it.
#[derive(Debug)]
pub struct TableGuard {
    file: PolicyFile,
    known: HashMap<Principal, TableRights>,
}

impl TableGuard {
    /// A guard by the policy of a file, which is looked at again from time to time.
    ///
    /// # Errors
    /// The file is of no use, for a reason that the error says.
    pub fn open(path: &Path) -> Result<Self, PolicyFileError> {
        Ok(Self { file: PolicyFile::open(path)?, known: HashMap::new() })
    }

    /// Takes a changed policy over; to be called now and then.
    pub(crate) fn renew(&mut self) {
        if self.file.renew() {
            self.known.clear();
        }
    }

    /// Whether a principal has what a request needs.
    pub(crate) fn has(&mut self, principal: &Principal, need: Need) -> bool {
        if let Some(rights) = self.known.get(principal) {
            return rights.have(need);
        }
        if self.known.len() >= PRINCIPALS_MAX {
            self.known.clear();
        }
        let rights = TableRights::of(&self.file, principal);
        let has = rights.have(need);
        self.known.insert(principal.clone(), rights);
        has
    }

    /// What a principal lacks for a call; `None` if it may make it. One that is malformed is for the shard to
    /// refuse.
    pub(crate) fn missing(
        &mut self,
        principal: &Principal,
        service: Service,
        message: &[u8],
    ) -> Option<Need> {
        let mut lacks = |need: &Need| !self.has(principal, *need);
        // Of a list the shard does no more than this, and a long one is not worth a longer look.
        match service {
            MULTI_GET => {
                let names = MultiGetRequest::decode(message).items().take(TURN_OBJECTS_MAX).flatten();
                names.map(|name| Need::On(name.table(), Right::Read)).find(lacks)
            }
            MULTI_PUT => {
                let puts = MultiPutRequest::decode(message).items().take(TURN_OBJECTS_MAX).flatten();
                puts.map(|put| Need::On(put.name.table(), Right::Write)).find(lacks)
            }
            ONCE => {
                let OnceRequest { service, message, .. } = OnceRequest::decode(message).ok()?;
                [Need::OnAny(Right::Write), need_of(service, message)].into_iter().find(lacks)
            }
            _ => Some(need_of(service, message)).filter(|need| lacks(need)),
        }
    }

    /// Says on standard error that something was refused; gives the sentence for whoever asked.
    pub(crate) fn refuse(&mut self, principal: &Principal, what: &str) -> String {
        let why = format!("{principal} may not {what}");
        REFUSED.say(format_args!("refused by the policy: {why}"));
        why
    }
}

/// What a call with one object or table needs.
fn need_of(service: Service, message: &[u8]) -> Need {
    let on = |right| match message.first_chunk() {
        Some(number) => Need::On(TableId(u64::from_le_bytes(*number)), right),
        None => Need::Nothing,
    };
    match service {
        GET | GET_PART | SCAN => on(Right::Read),
        PUT | PUT_PART | DELETE | INCREMENT => on(Right::Write),
        CREATE_TABLE | DROP_TABLE => administers(core::str::from_utf8(message).ok()),
        CREATE_TABLE_AT => administers(CreateTableRequest::decode(message).ok().map(|create| create.name)),
        ADD_CLIENT => Need::OnAny(Right::Write),
        STATISTICS | SLOT_MAP => Need::Anything,
        _ => Need::Store,
    }
}

/// What creating or dropping a table needs; a name that no table has is for the shard to refuse.
fn administers(table: Option<&str>) -> Need {
    let table = table.and_then(|name| TableId::of(name).ok());
    table.map_or(Need::Nothing, |table| Need::On(table, Right::Administer))
}

/// What a need is for, in words that name the table if the store has it.
pub fn words_of(need: Need, store: &Store) -> String {
    let (verb, table) = match need {
        Need::On(table, Right::Read) => ("read", table),
        Need::On(table, Right::Write) => ("write", table),
        Need::On(table, _) => ("create or drop", table),
        Need::OnAny(_) => return "write any table".to_owned(),
        Need::Nothing | Need::Anything => return "use the store".to_owned(),
        Need::Store => return "administer the store".to_owned(),
    };
    match store.table_names().find(|name| TableId::of(name) == Ok(table)) {
        Some(name) => format!("{verb} the table `{}`", printable(name)),
        None => format!("{verb} the table"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::store::Condition;
    use crate::wire::{BACKUP, GetRequest, HAND_OVER, PutRequest, SCRUB};
    use crate::{Name, Value};

    const POLICY: &str = "
        table users: read, write by uid 1
        table *: read by uid 2
        table \"a b\": administer by uid 2
        store: administer by uid 3
    ";

    fn guard(name: &str) -> TableGuard {
        let path = std::env::temp_dir().join(format!("farcall-guard-{name}-{}", std::process::id()));
        fs::write(&path, POLICY).expect("a file");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("it is ours");
        let guard = TableGuard::open(&path);
        fs::remove_file(&path).expect("it is ours");
        guard.expect("a policy")
    }

    impl TableGuard {
        fn allows(&mut self, principal: &Principal, service: Service, message: &[u8]) -> bool {
            self.missing(principal, service, message).is_none()
        }
    }

    fn name(table: &str) -> Name<'static> {
        Name::new(TableId::of(table).expect("short"), b"key").expect("a key")
    }

    fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut message = Vec::new();
        encode(&mut message);
        message
    }

    fn put(table: &str) -> PutRequest<'static> {
        let value = Value::new(b"value").expect("short");
        PutRequest { name: name(table), value, condition: Condition::Always }
    }

    #[test]
    fn each_call_needs_a_right_on_its_table() {
        let mut guard = guard("calls");
        let [one, two, three] = [1, 2, 3].map(Principal::User);
        let get = |table: &str| encoded(|to| GetRequest { name: name(table) }.encode(to));
        let put = |table: &str| encoded(|to| put(table).encode(to));
        assert!(guard.allows(&one, GET, &get("users")));
        assert!(guard.allows(&one, PUT, &put("users")));
        assert!(!guard.allows(&one, GET, &get("other")));
        assert!(guard.allows(&two, GET, &get("other")));
        assert!(!guard.allows(&two, PUT, &put("other")));
        // A message about one object begins with its table, whatever follows.
        assert!(guard.allows(&two, GET_PART, &get("other")) && !guard.allows(&one, GET_PART, &get("other")));
        assert!(guard.allows(&one, PUT_PART, &put("users")) && !guard.allows(&two, PUT_PART, &put("users")));
        assert!(!guard.allows(&three, GET, &get("users")));
        assert!(guard.allows(&two, CREATE_TABLE, b"a b"));
        assert!(!guard.allows(&two, DROP_TABLE, b"users"));
        assert!(guard.allows(&two, CREATE_TABLE_AT, b"\x01a b"));
        assert!(!guard.allows(&one, CREATE_TABLE_AT, b"\x01users"), "it may write, and not administer");
        assert!(!guard.allows(&two, CREATE_TABLE_AT, b"\x01users"));
        for service in [SCRUB, HAND_OVER, BACKUP, Service(4000)] {
            assert!(guard.allows(&three, service, b""));
            assert!(!guard.allows(&two, service, b""));
        }
        for (who, does_anything) in [(one, true), (two, true), (three, true), (Principal::Unproven, false)] {
            assert_eq!(guard.allows(&who, STATISTICS, b""), does_anything, "{who}");
        }
        assert!(guard.allows(&Principal::Unproven, GET, b"short"), "the shard says that it is malformed");
    }

    #[test]
    fn of_a_list_no_more_is_looked_at_than_the_shard_does() {
        let mut guard = guard("long-lists");
        let list = |others: usize| {
            let tables = (0..TURN_OBJECTS_MAX - others).map(|_| "users").chain(["other"]);
            encoded(|to| tables.for_each(|table| MultiGetRequest::encode_item(name(table), to)))
        };
        assert!(!guard.allows(&Principal::User(1), MULTI_GET, &list(1)), "the last that it does");
        assert!(guard.allows(&Principal::User(1), MULTI_GET, &list(0)), "the first that it does not");
    }

    #[test]
    fn every_object_of_a_list_counts_and_so_does_a_wrapped_call() {
        let mut guard = guard("lists");
        let one = Principal::User(1);
        let list = |tables: &[&str]| {
            encoded(|to| tables.iter().for_each(|table| MultiGetRequest::encode_item(name(table), to)))
        };
        assert!(guard.allows(&one, MULTI_GET, &list(&["users", "users"])));
        assert!(!guard.allows(&one, MULTI_GET, &list(&["users", "other"])));
        let puts = |tables: &[&str]| {
            encoded(|to| tables.iter().for_each(|table| MultiPutRequest::encode_item(&put(table), to)))
        };
        assert!(guard.allows(&one, MULTI_PUT, &puts(&["users"])));
        assert!(!guard.allows(&one, MULTI_PUT, &puts(&["users", "other"])));
        let once = |table: &str, service| {
            let message = encoded(|to| put(table).encode(to));
            let once = OnceRequest { client: 1, sequence: 1, first: 1, service, message: &message };
            encoded(|to| once.encode(to))
        };
        assert!(guard.allows(&one, ONCE, &once("users", PUT)));
        assert!(!guard.allows(&one, ONCE, &once("other", PUT)));
        assert!(!guard.allows(&one, ONCE, &once("users", HAND_OVER)), "a wrapper gives no right");
    }
}
