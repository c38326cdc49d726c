//! The public items of the crate, as `docs/reference/rust-api.txt` lists them.
//!
//! The tools that list the items of a crate read the JSON of rustdoc, which needs a nightly compiler. This reads the source
//! files instead: it follows each `pub use` of the crate's root and of its documented modules to the item, and prints the item
//! without its code.

use crate::{here, is_up_to_date};
use proc_macro2::TokenStream;
use quote::{ToTokens as _, quote};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};
use syn::{
    Attribute, File, ImplItem, Item, ItemImpl, ItemUse, Meta, TraitItem, Type, UseTree, Visibility,
    parse_quote,
};

/// Modules of the root that are not promised.
const NOT_PROMISED: [&str; 2] = ["host", "__private"];

/// The workspace's crates that items come from.
const CRATES: [(&str, &str); 7] = [
    ("llm_do_core", "core"),
    ("llm_do_models", "models"),
    ("llm_do_program", "program"),
    ("llm_do_host", "host"),
    ("llm_do_records", "records"),
    ("llm_do_runs", "runs"),
    ("llm_do_sandbox", "sandbox"),
];

#[test]
fn public_items_are_listed() {
    let listed = list();
    assert!(listed.contains("pub fn returns<T: DeserializeOwned + JsonSchema>"), "{listed}");
    is_up_to_date(&here().join("../../docs/reference/rust-api.txt"), &listed);
}

/// The listing.
fn list() -> String {
    let root = Module { folder: here().join("src"), file: here().join("src/lib.rs") };
    let mut text = String::from(
        "# The promised items of the crate `llm-do`. The test `generated` makes this list: UPDATE_EXPECT=1 cargo test -p llm-do --test generated\n",
    );
    let file = root.read();
    section("llm_do", &file.items, &root, &mut text);
    for item in &file.items {
        let Item::Mod(module) = item else { continue };
        let name = module.ident.to_string();
        if is_public(&module.vis) && !NOT_PROMISED.contains(&name.as_str()) {
            let (_, items) = module.content.as_ref().expect("the facade's modules are inline");
            section(&format!("llm_do::{name}"), items, &root, &mut text);
        }
    }
    text
}

/// The items that a module re-exports, sorted by name.
fn section(name: &str, items: &[Item], root: &Module, text: &mut String) {
    let mut listed = BTreeMap::new();
    for item in items {
        let Item::Use(used) = item else { continue };
        if is_public(&used.vis) && !is_hidden(&used.attrs) {
            for (path, shown) in leaves(used) {
                assert_ne!(shown, "*", "a promised item is re-exported by its name");
                let of = root.item(&path).unwrap_or_else(|| {
                    let path = path.join("::");
                    format!("pub use {path}; // another crate's, or a macro\n")
                });
                assert!(listed.insert(shown.clone(), of).is_none(), "{shown} is re-exported twice");
            }
        }
    }
    text.push_str(&format!("\n## {name}\n"));
    for item in listed.values() {
        text.push('\n');
        text.push_str(item);
    }
}

/// A module's file, and the folder of the files of modules in it.
#[derive(Clone)]
struct Module {
    folder: PathBuf,
    file: PathBuf,
}

impl Module {
    fn read(&self) -> File {
        let text = fs::read_to_string(&self.file).unwrap();
        syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", self.file.display()))
    }

    /// The module of that name in this one.
    fn inner(&self, name: &str) -> Option<Self> {
        let file = self.folder.join(format!("{name}.rs"));
        file.is_file().then(|| Self { folder: self.folder.join(name), file })
    }

    /// The root of a crate of the workspace.
    fn of_crate(name: &str) -> Option<Self> {
        let (_, folder) = CRATES.iter().find(|(known, _)| *known == name)?;
        let folder = here().join("..").join(folder).join("src");
        Some(Self { file: folder.join("lib.rs"), folder })
    }

    /// The item that a path leads to, as text. `self` is the root of a crate.
    fn item(&self, path: &[String]) -> Option<String> {
        let (first, rest) = path.split_first()?;
        match Self::of_crate(first) {
            Some(other) => other.item(rest),
            None if *first == "crate" => self.item_in(self, rest),
            None => self.item_in(self, path),
        }
    }

    /// The item that a path leads to from this module of a crate.
    fn item_in(&self, root: &Self, path: &[String]) -> Option<String> {
        let (name, modules) = path.split_last()?;
        let module = modules.iter().try_fold(self.clone(), |module, name| module.inner(name))?;
        let file = module.read();
        module.defined(name, &file).or_else(|| module.used(root, name, &file))
    }

    /// An item that is re-exported here.
    fn used(&self, root: &Self, name: &str, file: &File) -> Option<String> {
        let uses = file.items.iter().filter_map(|item| match item {
            Item::Use(used) if is_visible(&used.vis) => Some(used),
            _ => None,
        });
        // A path of one name is that of another crate.
        let mut paths = uses.flat_map(leaves).filter(|(path, shown)| shown == name && path.len() > 1);
        paths.find_map(|(path, _)| match &*path[0] {
            "crate" => root.item(&path),
            "self" => self.item_in(root, &path[1..]),
            other if Self::of_crate(other).is_some() => root.item(&path),
            _ => self.item_in(root, &path),
        })
    }

    /// An item that is defined here, with the methods and traits that this file implements for it.
    fn defined(&self, name: &str, file: &File) -> Option<String> {
        let item = file.items.iter().find_map(|item| declared(item, name))?;
        let mut items = vec![item];
        items.extend(file.items.iter().filter_map(|item| implemented(item, name)));
        let file = File { shebang: None, attrs: Vec::new(), items };
        Some(prettyplease::unparse(&file))
    }
}

/// Each path of a `use`, with the name that it gives.
fn leaves(used: &ItemUse) -> Vec<(Vec<String>, String)> {
    fn walk(tree: &UseTree, path: &mut Vec<String>, out: &mut Vec<(Vec<String>, String)>) {
        match tree {
            UseTree::Path(inner) => {
                path.push(inner.ident.to_string());
                walk(&inner.tree, path, out);
                path.pop();
            }
            UseTree::Name(name) => {
                let name = name.ident.to_string();
                out.push(([&path[..], std::slice::from_ref(&name)].concat(), name));
            }
            UseTree::Rename(rename) => {
                let path = [&path[..], &[rename.ident.to_string()]].concat();
                out.push((path, rename.rename.to_string()));
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| walk(tree, path, out)),
            UseTree::Glob(_) => out.push((path.clone(), "*".to_owned())),
        }
    }
    let mut out = Vec::new();
    walk(&used.tree, &mut Vec::new(), &mut out);
    out
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Visible outside of its module.
fn is_visible(visibility: &Visibility) -> bool {
    !matches!(visibility, Visibility::Inherited)
}

fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| attribute.to_token_stream().to_string().contains("hidden"))
}

/// The attributes that are part of the promise.
fn kept(attributes: &mut Vec<Attribute>) {
    attributes.retain(|attribute| match &attribute.meta {
        Meta::List(list) => list.path.is_ident("derive"),
        Meta::Path(path) => path.is_ident("non_exhaustive"),
        Meta::NameValue(_) => false,
    });
}

/// The item without its code, if it has that name.
fn declared(item: &Item, name: &str) -> Option<Item> {
    let mut item = item.clone();
    match &mut item {
        Item::Struct(of) if of.ident == name => {
            kept(&mut of.attrs);
            match &mut of.fields {
                syn::Fields::Named(fields) => {
                    let shown = fields.named.iter().filter(|field| is_public(&field.vis)).cloned();
                    let shown = shown.map(|mut field| {
                        field.attrs.clear();
                        field
                    });
                    fields.named = shown.collect();
                }
                syn::Fields::Unnamed(fields) => {
                    let shown = fields.unnamed.iter().map(|field| match is_public(&field.vis) {
                        true => field.clone(),
                        false => syn::Field { ty: parse_quote!(_), attrs: Vec::new(), ..field.clone() },
                    });
                    fields.unnamed = shown.collect();
                }
                syn::Fields::Unit => {}
            }
        }
        Item::Enum(of) if of.ident == name => {
            kept(&mut of.attrs);
            for variant in &mut of.variants {
                kept(&mut variant.attrs);
                variant.fields.iter_mut().for_each(|field| field.attrs.clear());
            }
        }
        Item::Trait(of) if of.ident == name => {
            kept(&mut of.attrs);
            for item in &mut of.items {
                if let TraitItem::Fn(function) = item {
                    function.attrs.clear();
                    // That a method need not be implemented is a promise, too.
                    function.default = function.default.is_some().then(|| parse_quote!({}));
                }
            }
        }
        Item::Fn(of) if of.sig.ident == name => {
            kept(&mut of.attrs);
            *of.block = parse_quote!({});
        }
        Item::Type(of) if of.ident == name => kept(&mut of.attrs),
        _ => return None,
    }
    Some(item)
}

/// Returns the promises of an `impl` about the type of that name.
fn implemented(item: &Item, name: &str) -> Option<Item> {
    let Item::Impl(of) = item else { return None };
    let is_it = |of: &Type| match of {
        Type::Path(path) => path.path.segments.last().is_some_and(|segment| segment.ident == name),
        _ => false,
    };
    if !is_it(&of.self_ty) || of.attrs.iter().any(|attribute| attribute.path().is_ident("cfg")) {
        return None;
    }
    let mut shown = ItemImpl { attrs: Vec::new(), ..of.clone() };
    shown.items = match &of.trait_ {
        Some(_) => of.items.iter().filter(|item| matches!(item, ImplItem::Type(_))).cloned().collect(),
        None => of.items.iter().filter_map(method).collect(),
    };
    (of.trait_.is_some() || !shown.items.is_empty()).then_some(Item::Impl(shown))
}

/// A public method without its code.
fn method(item: &ImplItem) -> Option<ImplItem> {
    let ImplItem::Fn(function) = item else { return None };
    if !is_public(&function.vis) {
        return None;
    }
    let (visibility, signature) = (&function.vis, &function.sig);
    let shown: TokenStream = quote!(#visibility #signature {});
    Some(syn::parse2(shown).unwrap())
}

#[test]
fn paths_lead_through_re_exports() {
    let root = Module { folder: here().join("src"), file: Path::new(&here()).join("src/lib.rs") };
    let path = |text: &str| text.split("::").map(str::to_owned).collect::<Vec<_>>();
    assert!(root.item(&path("llm_do_core::gate::Mode")).unwrap().contains("pub enum Mode"));
    assert!(root.item(&path("embedding::Call")).unwrap().contains("pub struct Call<O>"));
    assert_eq!(root.item(&path("schemars")), None);
}
