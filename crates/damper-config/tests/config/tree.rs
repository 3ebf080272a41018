//! A quota tree and its plans from settings.

use damper_config::{Reloader, Sources};
use damper_core::{Plan, Quota};
use std::fs;
use std::path::Path;
use std::sync::Arc;

const PLANS: &str = "[server.tree]\nmax_keys = 100\nunsettled = 1\ntime_to_live = '30s'\n[server.tree.plans]\n\
    default.requests = '60/min'\npro = { requests = '600/min', tokens = '90000/min burst 5000' }\n";

fn plan(quota: &str) -> Plan {
    Plan::new(quota.parse().unwrap()).unwrap()
}

#[test]
fn settings_build_a_tree_and_its_plans() {
    let settings = Sources::new().toml("app.toml", PLANS).load().unwrap().server.tree;
    let plans = settings.named_plans(["requests", "tokens"]).unwrap();
    assert_eq!(plans.get("pro"), [plan("600/min"), plan("90000/min burst 5000")]);
    assert_eq!(plans.get("no such plan"), [plan("60/min"), Plan::UNLIMITED]);
    assert_eq!(plans.get("default"), plans.get("no such plan"));
    let tree = settings.builder::<str, 1, 2>(["user"], ["requests", "tokens"]).build().unwrap();
    let pro = plans.get("pro");
    assert!(tree.check(&[("alice", pro.each_ref())], [1, 5_000]).is_ok());
    assert_eq!(tree.check(&[("alice", pro.each_ref())], [1, 5_000]).unwrap_err().dimension_name(), "tokens");
    let without = Sources::new().load().unwrap().server.tree.named_plans(["requests"]).unwrap();
    assert_eq!(without.get("pro"), [Plan::UNLIMITED]);
}

#[test]
fn mistakes_name_their_place_and_what_is_allowed() {
    for (text, expected) in [
        (
            "[server.tree.plans]\ndefault.requests = 'sixty'",
            "app.toml:2:9: server.tree.plans.default.requests is \"sixty\", it must be",
        ),
        (
            "[server.tree.plans]\ndefault = {}",
            "server.tree.plans.default is a table, it must be a table of quotas such as",
        ),
        ("[server.tree.plans]\ndefault = '60/min'", "it must be a table of quotas"),
        ("[server.tree.plans]\ndefault.requests.quota = '60/min'", "did you mean server.tree.plans.default.requests?"),
        ("[server.tree.plans]\ndefault.requests = '9000000/s'", "(a token takes 128 ns or more)"),
        ("[server.tree.plans]\n'a plan'.requests = '9/s'", "1 to 64 letters, digits, _ or -"),
        ("[server.tree.plans]\npro.requests = '9/s'", "plans must have one with the name default"),
        ("[server.tree]\nplans = 'pro'", "it must be at most 256 plans by name"),
        ("[server.tree]\nunsettled = -1", "server.tree.unsettled is -1, it must be a number from 0 to"),
        ("[server.tree]\ntime_to_live = '0s'", "it must be a duration from 1ms to 30days"),
    ] {
        let error = Sources::new().toml("app.toml", text).load().unwrap_err().to_string();
        assert!(error.starts_with("app.toml:2:") && error.contains(expected), "{text}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let settings = Sources::new().toml("app.toml", PLANS).load().unwrap().server.tree;
    let error = settings.named_plans(["requests", "bytes"]).unwrap_err();
    assert_eq!(error.to_string(), "plan \"pro\" limits \"tokens\", the dimensions are requests, bytes");
}

/// Variables and later files add to plans, name by name.
#[test]
fn later_sources_add_to_plans() {
    let more = "server.tree.plans.pro.requests = '700/min'\nserver.tree.plans.team.tokens = '9/s'";
    let settings = Sources::new().toml("app.toml", PLANS).toml("more.toml", more).load().unwrap();
    let plans = settings.server.tree.named_plans(["requests", "tokens"]).unwrap();
    assert_eq!(plans.get("pro"), [plan("700/min"), plan("90000/min burst 5000")]);
    assert_eq!(plans.get("team"), [Plan::UNLIMITED, plan("9/s")]);
    let again = Sources::new().toml("again.toml", &settings.to_toml()).load().unwrap();
    assert_eq!(again, settings, "they are written as they are read");
}

#[test]
fn reload_replaces_all_plans_or_none() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tree-plans");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("app.toml");
    fs::write(&file, PLANS).unwrap();
    let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
    let plans = Arc::new(reloader.settings().server.tree.named_plans(["requests", "tokens"]).unwrap());
    let reloader = reloader.bind(|settings| &settings.server.tree, Arc::clone(&plans));

    fs::write(&file, PLANS.replace("600/min", "6000/min").replace("default.requests", "default.tokens")).unwrap();
    let [change] = &reloader.reload().unwrap()[..] else { panic!("the plans have changed, and nothing else") };
    assert_eq!(
        change.to_string(),
        "server.tree.plans changed from { default.requests = \"60/min burst 60\", pro.requests = \"600/min burst 600\", \
         pro.tokens = \"90000/min burst 5000\" } to { default.tokens = \"60/min burst 60\", pro.requests = \"6000/min burst 6000\", \
         pro.tokens = \"90000/min burst 5000\" }"
    );
    assert_eq!(plans.get("pro")[0].quota(), Quota::per_minute(6_000));
    assert_eq!(plans.get("free"), [Plan::UNLIMITED, plan("60/min")]);

    for (text, why) in [
        (PLANS.replace("tokens", "bytes"), "plan \"pro\" limits \"bytes\", the dimensions are requests, tokens"),
        (PLANS.replace("600/min", "no quota"), "app.toml:7:"),
        (PLANS.replace("max_keys = 100", "max_keys = 200"), "server.tree.max_keys"),
    ] {
        fs::write(&file, text).unwrap();
        let error = reloader.reload().unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        assert_eq!(plans.get("pro")[0].quota(), Quota::per_minute(6_000), "as before");
    }
}
