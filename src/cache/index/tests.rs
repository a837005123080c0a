mod graph;
mod model;
