use super::defaults::DAY_MS;
use super::*;

fn load(file: &str, env: &[(&str, &str)], flags: SettingsFlags) -> Result<Settings, String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("baton.toml");
    std::fs::write(&path, file).unwrap();
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Settings::load(Some(&path), env, flags)
}

#[test]
fn flags_win_over_environment_over_file_over_defaults() {
    let flags = SettingsFlags { listen: Some("127.0.0.1:3".into()), ..SettingsFlags::default() };
    let file = "listen = '127.0.0.1:1'\nlease_ttl_ms = 20000\nbacklog_max = 7";
    let env = [("BATON_LISTEN", "127.0.0.1:2"), ("BATON_LEASE_TTL_MS", "30000"), ("HOME", "/x"), ("BATON_URL", "y")];
    let settings = load(file, &env, flags).unwrap();
    assert_eq!(settings.listen, "127.0.0.1:3");
    assert_eq!((settings.lease_ttl_ms, settings.backlog_max), (30_000, 7));
    assert_eq!(settings.heartbeat_interval_ms, Settings::default().heartbeat_interval_ms);
}

#[test]
fn what_is_wrong_is_named() {
    let none = SettingsFlags::default;
    assert!(load("lisen = 'x'", &[], none()).unwrap_err().contains("lisen"));
    assert!(load("listen = 3", &[], none()).unwrap_err().contains("listen"));
    assert!(load("listen = 'nowhere'", &[], none()).unwrap_err().contains("127.0.0.1:7400"));
    assert!(load("", &[("BATON_LISSEN", "x")], none()).unwrap_err().contains("BATON_LISSEN"));
    assert!(load("", &[("BATON_LEASE_TTL_MS", "soon")], none()).unwrap_err().contains("whole number"));
    assert!(load("lease_ttl_ms = 5000", &[], none()).unwrap_err().contains("heartbeat_interval_ms"));
    assert!(load("", &[("BATON_API_KEY", "short")], none()).unwrap_err().contains("16"));
    assert!(load("body_bytes_max = 0", &[], none()).unwrap_err().contains("body_bytes_max"));
}

#[test]
fn a_misspelt_setting_is_named_with_its_line_and_what_may_be_meant() {
    let none = SettingsFlags::default;
    let said = load("# comment\nlisten = '127.0.0.1:1'\n\nlease_tll_ms = 5", &[], none()).unwrap_err();
    assert!(said.starts_with("unknown setting `lease_tll_ms` at "), "{said}");
    assert!(said.ends_with("baton.toml:4; did you mean lease_ttl_ms?"), "{said}");
    let said = load("data = '/x'\n[something.else]\na = 1", &[], none()).unwrap_err();
    assert!(said.contains("unknown setting `something` at ") && said.ends_with("baton.toml:2"), "{said}");
    let said = load("", &[("BATON_LEASE_TLL_MS", "5")], none()).unwrap_err();
    assert!(said.ends_with("did you mean BATON_LEASE_TTL_MS?"), "{said}");
    let said = load("\nbacklog_max = 'many'", &[], none()).unwrap_err();
    assert!(said.contains("backlog_max at ") && said.ends_with("baton.toml:2 must be a whole number"), "{said}");
}

#[test]
fn spans_are_written_as_people_write_them() {
    let none = SettingsFlags::default;
    let env = [("BATON_CANCEL_GRACE_MS", "2m"), ("BATON_HEARTBEAT_INTERVAL_MS", "5000")];
    let settings = load("lease_ttl_ms = '1m30s'\nretention_audit_ms_min = '31d'", &env, none()).unwrap();
    assert_eq!((settings.lease_ttl_ms, settings.cancel_grace_ms), (90_000, 120_000));
    assert_eq!((settings.heartbeat_interval_ms, settings.retention_audit_ms_min), (5_000, 31 * DAY_MS));
    let said = load("\nlease_ttl_ms = 'soon'", &[], none()).unwrap_err();
    assert!(said.contains("baton.toml:2") && said.contains("is not a span of time"), "{said}");
    let said = load("lease_ttl_ms = true", &[], none()).unwrap_err();
    assert!(said.ends_with("must be a whole number or a span like \"5s\""), "{said}");
    let said = load("", &[("BATON_LEASE_TTL_MS", "soon")], none()).unwrap_err();
    assert!(said.contains("a span like 5s"), "{said}");
    assert!(load("backlog_max = '5s'", &[], none()).is_err(), "no span of time");
}

#[test]
fn no_secret_is_echoed() {
    for url in [
        "mysql://me:CANARY@h/d",
        "postgres:/me:CANARY@h/d",
        "me:CANARY@h/d",
        "host=h password=CANARY",
        "sqlite://me:CANARY@h/d",
        "postgres://me:CANARY@h/d?sslmode=CANARY",
        "postgres://me:x@CANARY?CANARY=1@h/d",
    ] {
        for key in ["database_url", "listen_url"] {
            let said = load(&format!("{key} = '{url}'"), &[], SettingsFlags::default()).unwrap_err();
            assert!(said.contains(key) && !said.contains("CANARY"), "{key} {url}: {said}");
        }
    }
    let mysql = load("database_url = 'mysql://me:x@h/d'", &[], SettingsFlags::default()).unwrap_err();
    assert!(mysql.contains("mysql://") && mysql.contains("postgres://"), "{mysql}");
    for file in ["a = 1\ndatabase_url = postgres://me:CANARY@h/d", "api_key = 0x_CANARY", "api_key = 'CANARY"] {
        let said = load(file, &[], SettingsFlags::default()).unwrap_err();
        assert!(said.contains("line") && !said.contains("CANARY"), "{said}");
    }
    let number = load("api_key = 1234567812345678", &[], SettingsFlags::default()).unwrap_err();
    assert!(number.contains("api_key") && !number.contains("1234567812345678"), "{number}");
    let text = || Some("CANARY-CANARY-CANARY".to_owned());
    let settings = Settings {
        database_url: text(),
        listen_url: text(),
        storage_url: text(),
        storage_mirror_url: text(),
        api_key: text(),
        metrics_key: text(),
        github_token: Some(Secret::from("CANARY".to_owned())),
        ..Settings::default()
    };
    let flags = SettingsFlags { database: text(), storage: text(), api_key: text(), ..SettingsFlags::default() };
    let shown = format!("{settings:?} {settings:#?} {flags:?}");
    assert!(!shown.contains("CANARY") && shown.contains("lease_ttl_ms"), "{shown}");
}

#[test]
fn paths_are_databases_whatever_is_in_them() {
    for path in ["/var/lib/a:b@c/baton.db", "./x@y.db", "baton.db", "sqlite:///x/a:b@c.db"] {
        let settings = load(&format!("database_url = '{path}'"), &[], SettingsFlags::default());
        assert!(settings.is_ok_and(|settings| settings.sqlite_path().is_some()), "{path}");
    }
}

#[test]
fn the_master_key_comes_from_one_place_and_is_in_no_list() {
    let key = baton_core::token::master_key([7; 32]);
    let settings = load("", &[("BATON_MASTER_KEY", &key)], SettingsFlags::default()).unwrap();
    assert_eq!(settings.master_key.as_ref().map(Secret::reveal), Some(key.as_str()));
    let listed = toml::Table::try_from(&settings).unwrap().to_string();
    assert!(!format!("{settings:?}{listed}").contains(&key) && !listed.contains("master_key ="));
    let both = load("master_key_file = '/k'", &[("BATON_MASTER_KEY", &key)], SettingsFlags::default());
    let refused = both.unwrap_err();
    assert!(refused.contains("master_key_file") && refused.contains("BATON_MASTER_KEY"), "{refused}");
    assert!(!refused.contains(&key));
    assert!(load("master_key = 'x'", &[], SettingsFlags::default()).is_err(), "not from a file of settings");
    assert!(load("", &[("BATON_MASTER_KEY", "short")], SettingsFlags::default()).is_err());
}

#[test]
fn every_setting_is_documented() {
    let page = include_str!("../../../../docs/settings.md");
    for key in toml::Table::try_from(Settings::every_key()).unwrap().keys() {
        assert!(page.contains(&format!("| `{key}` |")), "docs/settings.md lacks {key}");
    }
}

#[test]
fn a_key_of_digits_is_still_text() {
    let settings = load("", &[("BATON_API_KEY", "12345678901234567890")], SettingsFlags::default()).unwrap();
    assert_eq!(settings.api_key.as_deref(), Some("12345678901234567890"));
}

#[test]
fn artifacts_are_in_the_data_directory_unless_a_storage_is_named() {
    let flags = SettingsFlags { storage: Some("s3://a".into()), ..SettingsFlags::default() };
    assert_eq!(load("", &[("BATON_STORAGE_URL", "s3://b")], flags).unwrap().storage(), "s3://a");
    let settings = load("data = '/d'", &[], SettingsFlags::default()).unwrap();
    assert_eq!(settings.storage(), "/d/artifacts");
}

#[test]
fn the_database_is_sqlite_unless_postgres_is_named() {
    let at = |url: Option<&str>| {
        Settings { database_url: url.map(str::to_owned), data: "/d".into(), ..Settings::default() }.sqlite_path()
    };
    assert_eq!(at(None), Some("/d/baton.db".into()));
    assert_eq!(at(Some("sqlite:///x/y.db")), Some("/x/y.db".into()));
    assert_eq!(at(Some("postgres://h/d")), None);
}
