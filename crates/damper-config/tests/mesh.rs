//! Scopes of Mesh from settings, and their reload.
#![cfg(feature = "mesh")]

use damper_config::{Reloader, Sources};
use damper_mesh::{Caller, Scope};
use std::path::Path;
use std::sync::Arc;

#[test]
fn scopes_are_those_that_are_set_and_keep_their_state_over_a_reload() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mesh.toml");
    let write = |text: &str| std::fs::write(&file, format!("[server.mesh]\n{text}")).unwrap();
    write("user = '2/h burst 2'\nfunctions = ['orders.create 1/h', 'orders.list 9/h']");
    let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
    let scopes = Arc::new(reloader.settings().server.mesh.scopes().unwrap());
    let reloader = reloader.bind(|settings| &settings.server.mesh, Arc::clone(&scopes));
    assert!(scopes.limiter(Scope::Global).is_none() && scopes.limiter(Scope::Service).is_none());

    let list = Caller::of("orders.list").user("ann");
    for _ in 0..2 {
        assert!(scopes.check(list).is_ok());
    }
    assert_eq!(scopes.check(list).unwrap_err().scope(), Scope::User);
    assert!(scopes.check(Caller::of("orders.create").user("bob")).is_ok());
    assert_eq!(scopes.check(Caller::of("orders.create").user("cay")).unwrap_err().scope(), Scope::Function);

    write("user = '3/h burst 2'\nfunctions = ['orders.create 2/h burst 1', 'orders.list 9/h']");
    assert_eq!(reloader.reload().unwrap().len(), 2);
    assert_eq!(scopes.limiter(Scope::User).unwrap().quota().limit(), 3);
    assert_eq!(scopes.function_limiter("orders.create").unwrap().quota().limit(), 2);
    assert!(scopes.check(list).is_err(), "an exhausted user stays exhausted");

    for (text, why) in [
        ("functions = ['orders.create 2/h burst 1', 'orders.list 9/h']", "user has no quota any more"),
        (
            "global = '5/s'\nuser = '3/h burst 2'\nfunctions = ['orders.create 2/h burst 1', 'orders.list 9/h']",
            "global had no quota",
        ),
        ("user = '3/h burst 2'\nfunctions = ['orders.create 2/h burst 1']", "orders.list has no quota any more"),
    ] {
        write(text);
        let error = reloader.reload().expect_err(text).to_string();
        assert!(error.starts_with("server.mesh: ") && error.contains(why), "{error}");
    }
}
