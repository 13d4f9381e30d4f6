import { mountAll } from "./mounting";

mountAll(document);
