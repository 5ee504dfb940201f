use sconce_plugin_api::prelude::*;

struct Mine;

export_plugin!(Mine);

fn main() {}
