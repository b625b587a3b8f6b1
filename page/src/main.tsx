import { render } from "preact";
import { App } from "./app";
import { applyTheme } from "./theme";
import "./styles/index.css";

applyTheme();
render(<App />, document.getElementById("page")!);
