fn main() {
    for c in kantor_api::crds() {
        println!("{}", serde_json::to_string(&c).unwrap());
    }
}
