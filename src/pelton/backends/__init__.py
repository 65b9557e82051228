"""What runs plans. `executable` is the contract; `reference` defines every op, `cpu` is the native one."""
