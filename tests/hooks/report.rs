//! `report`: one HTML file of the whole run.
