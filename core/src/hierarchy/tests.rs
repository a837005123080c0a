mod essence;
mod facts;
mod resolve;
